"""Loads files and tables of Spark into collections, and puts rows that do not fit aside."""

from __future__ import annotations

from lowtide.pipeline.load.load import LoadRefused, LoadReport, load

__all__ = ["LoadRefused", "LoadReport", "load"]
