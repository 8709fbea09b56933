"""Aggregation pipelines: compiled once, then run over any iterable of documents."""

from lowtide.documents.aggregation.pipeline import Leading, Pipeline, compile_pipeline, needed_fields

__all__ = ["Leading", "Pipeline", "compile_pipeline", "needed_fields"]
