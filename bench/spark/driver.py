"""The driver: a separate process with the only Spark session of the run. The session and the JVM end with it.

It reads what to measure from its standard input, and writes lines of JSON to its standard output: its progress, and in
the end the data. All output of Spark goes to the standard error.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from bench.section import Data
from bench.spark.jobs import Files, Job, Sources, Timing, growth_jobs, reading_jobs, writing_jobs
from bench.spark.session import make_session
from bench.spark.streams import LATENCY, STREAM, measure_latency, measure_throughput
from bench.timing import turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST_REASON = 300  # characters
_OF_THE_JVM = re.compile(r"\s+(at |\.\.\. \d+ more|SQLSTATE)|JVM stacktrace")
_TRACEBACK = "Traceback (most recent call last)"
_OF_THE_CALL = re.compile(r"An error occurred while calling \S+\s*:?\s*")


@dataclass(frozen=True)
class Order:
    """What is to be measured."""

    place: str
    documents: int
    written: int
    sizes: list[int]
    rounds: int
    few: int
    """Rounds of what takes long: writing, growth and streams."""
    changes: int
    """In the stream whose throughput is measured."""
    samples: int
    """For the latency of a stream."""
    lines: list[str]
    """Empty for all of them."""
    peers: list[str]
    """Empty for all of them; each by the first word of its name."""

    def wants(self, line: str, peer: str) -> bool:
        store = peer.partition(",")[0]
        return (not self.lines or line in self.lines) and (not self.peers or store in self.peers)


@dataclass
class Outcome:
    """What was measured so far, and what could not be."""

    timings: list[Timing] = field(default_factory=list)
    failed: dict[str, Data] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    """Tracebacks for the user who runs it. They are not stored."""

    def fail(self, name: str, line: str, peer: str, error: Exception, place: str) -> None:
        self.failed[name] = {"line": line, "peer": peer, "why": reason(error, place)}
        told = "".join(traceback.format_exception(error)).splitlines()
        self.told.append("\n".join([f"{name}:", *(each for each in told if not _OF_THE_JVM.match(each))]))

    def timings_as_data(self) -> Data:
        rows = [
            [round(value, 6) if isinstance(value, float) else value for value in astuple(each)] for each in self.timings
        ]
        return {"fields": [each.name for each in fields(Timing)], "rows": rows}


def reason(error: Exception, place: str) -> str:
    """One line of an error, with no path of this machine in it.

    >>> reason(ValueError("no store in /tmp/x/store\\nsecond line"), "/tmp/x")
    'ValueError: no store in …/store'
    """
    text = _OF_THE_CALL.sub("", str(error))
    said = [line.strip() for line in text.splitlines() if line.strip() and not _OF_THE_JVM.match(line)]
    # What failed in a worker comes with Python's traceback, which ends with the error.
    line = said[-1 if _TRACEBACK in text else 0] if said else ""
    return f"{type(error).__name__}: {line}".replace(place, "…")[:_LONGEST_REASON]


Step = Callable[[str, float], None]


def run_rounds(jobs: Sequence[Job], rounds: int, outcome: Outcome, place: str, step: Step) -> None:
    """Carry out the jobs in turns, each round in another order, after a round that is checked and not counted.

    A job that fails is left out from then on. The figures of the others are still useful.
    """
    by_name = {job.name: job for job in jobs}
    if not by_name:
        return
    plan = [list(by_name), *turns(list(by_name), (), rounds, rounds)]
    for number, names in enumerate(plan):
        for at, name in enumerate(names):
            job = by_name[name]
            step(f"{job.line.removeprefix('spark-')}, {job.peer}", (number + at / len(names)) / len(plan))
            if name in outcome.failed:
                continue
            try:
                timing = job.timed(number - 1, checked=number == 0)
            except Exception as error:
                outcome.fail(name, job.line, job.peer, error, place)
            else:
                if number:
                    outcome.timings.append(timing)


def measure(spark: SparkSession, order: Order, step: Step) -> Data:
    files = Files(Path(order.place))
    sources = Sources(spark, files)
    outcome = Outcome()
    groups = [
        (reading_jobs(sources, files, order.documents), order.rounds, 0.0, 0.45),
        (writing_jobs(sources, files, order.written), order.few, 0.45, 0.6),
        (growth_jobs(sources, files, order.sizes), order.few, 0.6, 0.8),
    ]
    for jobs, rounds, start, stop in groups:
        wanted = [job for job in jobs if order.wants(job.line, job.peer)]
        run_rounds(wanted, rounds, outcome, order.place, _between(step, start, stop))
    data: Data = {}
    streams: list[tuple[str, Callable[[], Data]]] = [
        (STREAM, lambda: measure_throughput(spark, files.place / STREAM, order.changes, order.few)),
        (LATENCY, lambda: measure_latency(spark, files.place / LATENCY, order.samples)),
    ]
    for at, (line, measure_stream) in enumerate(streams):
        step(line.removeprefix("spark-"), 0.8 + 0.1 * at)
        if order.wants(line, "lowtide"):
            try:
                data[line] = measure_stream()
            except Exception as error:
                outcome.fail(line, line, "lowtide", error, order.place)
    return data | {"timings": outcome.timings_as_data(), "failed": outcome.failed, "told": outcome.told}


def _between(step: Step, start: float, stop: float) -> Step:
    return lambda doing, share: step(doing, start + (stop - start) * share)


def main() -> None:
    # The JVM and the workers inherit the standard output: it is theirs no longer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order = Order(**json.load(sys.stdin))
    _say(answers, {"doing": "starting Spark", "share": 0.0})
    spark = make_session(Path(order.place))
    try:
        data = measure(spark, order, lambda doing, share: _say(answers, {"doing": doing, "share": share}))
        versions = {"spark": spark.version, "java": _java(spark)}
    finally:
        with suppress(Exception):
            spark.stop()
    _say(answers, {"data": data | {"versions": versions}})


def _java(spark: SparkSession) -> str:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return str(jvm.java.lang.System.getProperty("java.version"))


def _say(answers: TextIO, what: Data) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
