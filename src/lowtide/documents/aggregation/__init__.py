"""Aggregation: pipelines of stages, compiled once, over any documents."""

from lowtide.documents.aggregation.pipeline import Leading, Pipeline, compile_pipeline, needed_fields

__all__ = ["Leading", "Pipeline", "compile_pipeline", "needed_fields"]
