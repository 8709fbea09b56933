"""Applies the changes of a store to another one."""

from __future__ import annotations

from lowtide.pipeline.replicate.replicate import ReplicateReport, replicate

__all__ = ["ReplicateReport", "replicate"]
