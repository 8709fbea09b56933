"""Runs a store's whole pipeline from its config file: loads, archive, compaction, vacuum, audit, in this order.

A step that fails ends the run, because later steps depend on it. Completed steps are kept, and the report and the
metrics are written anyway.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lowtide.errors import Error
from lowtide.pipeline.archive.run import archive
from lowtide.pipeline.archive.status import status
from lowtide.pipeline.audit import audit
from lowtide.pipeline.load.load import load
from lowtide.pipeline.plots import thinned
from lowtide.pipeline.runs.config import LoadConfig, PipelineConfig, read_config
from lowtide.pipeline.runs.metrics import write_metrics
from lowtide.pipeline.runs.page import page_of
from lowtide.pipeline.runs.report import DONE, FAILED, NOT_RUN, RunFailed, RunReport, StepReport, write_report
from lowtide.pipeline.runs.schedule import RunStopped, Stop
from lowtide.pipeline.tables.clearing import GRACE
from lowtide.pipeline.tables.compact import compact, compact_where_due
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.travel.retention import Keep
from lowtide.pipeline.vacuum.vacuum import vacuum
from lowtide.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]
Work = Callable[[Progress], Mapping[str, Any]]


def run(
    spark: SparkSession,
    config: PipelineConfig | str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> RunReport:
    """Run all jobs of a config file once, and return a report. ``config`` is a file, or the result of ``read_config``.

    Raises RunFailed if a step fails, with the report of what was done. If ``stop`` is requested, the run ends after the
    step it is at, and raises RunStopped.
    """
    chosen = config if isinstance(config, PipelineConfig) else read_config(config)
    return run_steps(
        RunPlace(chosen.store, chosen.archive, chosen.report, chosen.metrics),
        dict(_steps(spark, chosen)),
        progress=progress,
        stop=stop,
    )


def _steps(spark: SparkSession, config: PipelineConfig) -> Iterator[tuple[str, Work]]:
    for number, each in enumerate(config.loads, 1):
        yield f"load {number} into {each.collection}", _loading(spark, config.store, each)
    yield from archiving(spark, config.store, config.archive, config.collections, compact=config.compact)
    keep = config.keep
    if keep is not None:
        yield "vacuum", _vacuuming(spark, config, keep)
    job = config.audit
    if job is not None:
        yield "audit", lambda tell: audit(spark, job.history, job.level, progress=tell).to_dict()


def archiving(
    spark: SparkSession,
    store: str,
    archive_path: str,
    collections: tuple[str, ...] | None,
    *,
    compact: str = "auto",
) -> Iterator[tuple[str, Work]]:
    """The steps that bring an archive up to date and keep its files large."""

    def work(tell: Progress) -> Mapping[str, Any]:
        return archive(spark, store, archive_path, collections, compact="never", progress=tell).to_dict()

    yield "archive", work
    if compact != "never":
        yield "compact", _compacting(spark, archive_path, always=compact == "always")


def _compacting(spark: SparkSession, archive_path: str, *, always: bool) -> Work:
    def work(tell: Progress) -> Mapping[str, Any]:
        if always:
            return compact(spark, archive_path, progress=tell).to_dict()
        return {"tables": compact_where_due(spark, Location.of(archive_path), tell)}

    return work


def _vacuuming(spark: SparkSession, config: PipelineConfig, keep: Keep) -> Work:
    grace = GRACE if config.grace is None else timedelta(seconds=config.grace)

    def work(tell: Progress) -> Mapping[str, Any]:
        done = vacuum(spark, config.archive, keep, store_path=config.store, grace=grace, progress=tell)
        return done.to_dict()

    return work


def _loading(spark: SparkSession, store: str, job: LoadConfig) -> Work:
    def work(tell: Progress) -> Mapping[str, Any]:
        done = load(
            spark,
            job.source,
            store,
            job.collection,
            format=job.format,
            mapping=job.mapping,
            schema=job.schema,
            mode=job.mode,
            quarantine=job.quarantine,
            max_bad=job.max_bad,
            name=job.name,
            version=job.version,
            options=job.options,
            progress=tell,
        )
        return done.to_dict()

    return work


@dataclass(frozen=True)
class RunPlace:
    """What a run is of, and where its report and metrics go."""

    store: str
    archive: str
    report: str | None = None
    metrics: str | None = None


def run_steps(
    place: RunPlace, steps: Mapping[str, Work], *, progress: Progress | None = None, stop: Stop | None = None
) -> RunReport:
    """Do the steps in order, and report them."""
    stopping = stop if stop is not None else Stop()
    at, begun = datetime.fromtimestamp(SYSTEM_CLOCK.time(), UTC), SYSTEM_CLOCK.monotonic()
    done: list[StepReport] = []
    failure: Exception | None = None
    for name, work in steps.items():
        if failure is not None:
            done.append(StepReport(name, NOT_RUN))
            continue
        started = SYSTEM_CLOCK.monotonic()
        try:
            stopping.check()
            detail = work(_named(stopping.between(progress), name))
        except Exception as error:
            failure = error
            seconds = SYSTEM_CLOCK.monotonic() - started
            done.append(StepReport(name, FAILED, seconds, error=_words(error)))
        else:
            done.append(StepReport(name, DONE, SYSTEM_CLOCK.monotonic() - started, detail))
    report = RunReport(
        store=place.store,
        archive=place.archive,
        at=at,
        seconds=SYSTEM_CLOCK.monotonic() - begun,
        steps=tuple(done),
        status=_status(place.archive),
    )
    _publish(report, place)
    if isinstance(failure, RunStopped):
        raise failure
    if failure is not None:
        failed = next(each for each in done if each.state == FAILED)
        raise RunFailed(f"the step {failed.name} failed: {failed.error}", report) from failure
    return report


def _named(tell: Progress, name: str) -> Progress:
    return lambda what: tell(f"{name}: {what}")


def _words(error: Exception) -> str:
    """An error in one line; its type too, if it is not one of Lowtide's."""
    text = " ".join(str(error).split())
    return text if isinstance(error, Error) else f"{type(error).__name__}: {text[:2000]}"


def _status(archive_path: str) -> dict[str, Any]:
    """The archive after the run, with a sample of its runs; empty if there is none yet."""
    try:
        found = status(archive_path).to_dict()
    except Error:
        return {}
    return {**found, "runs": thinned(found["runs"])}


def _publish(report: RunReport, place: RunPlace) -> None:
    if place.report is not None:
        write_report(report, place.report, page_of(report))
    if place.metrics is not None:
        write_metrics(report, place.metrics)
