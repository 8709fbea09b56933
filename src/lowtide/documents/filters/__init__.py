"""Filters: PyMongo's query documents, each compiled once to a closure."""

from lowtide.documents.filters.compile import compile_filter
from lowtide.documents.filters.conditions import Condition
from lowtide.documents.filters.filter import Filter

__all__ = ["Condition", "Filter", "compile_filter"]
