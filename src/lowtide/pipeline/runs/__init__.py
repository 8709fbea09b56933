"""Runs the pipeline of a store according to its config file, once or on a schedule, and reports the results."""

from __future__ import annotations

from lowtide.pipeline.runs.config import ConfigError, PipelineConfig, read_config
from lowtide.pipeline.runs.report import RunFailed, RunReport, StepReport
from lowtide.pipeline.runs.runs import run

__all__ = ["ConfigError", "PipelineConfig", "RunFailed", "RunReport", "StepReport", "read_config", "run"]
