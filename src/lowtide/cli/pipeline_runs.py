"""``lowtide pipeline archive``, ``run``, ``status`` and ``audit``: the history of a store on Spark.

Exit codes: 0 for success, 1 for a failure, 2 for wrong usage, and 3 if the run succeeded but found gaps, quarantined
rows or anomalies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.audit.levels import level_of
from lowtide.cli.arguments import ArchivePath, Collections, Json, StoreDirectory
from lowtide.cli.failures import ATTENTION, ENDED, FAILED, WRONG, fail
from lowtide.cli.output import Output, Tell, busy
from lowtide.cli.reach import find_store
from lowtide.cli.spark_session import Master, pipeline_module, spark_session
from lowtide.cli.words import clean
from lowtide.errors import Error, UsageError
from lowtide.system.quantities import seconds_of, size, span

if TYPE_CHECKING:
    from lowtide.pipeline import ArchiveStatus, RunReport
    from lowtide.pipeline.runs.schedule import Stop

Every = Annotated[
    str | None,
    typer.Option(
        "--every", metavar="DURATION", help="Repeat at this interval: 15m, 1h. SIGTERM ends it.", show_default=False
    ),
]
ReportDirectory = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="DIR", help="Write a report of each run here, as JSON and as HTML.", show_default=False
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option("--metrics", metavar="FILE", help="Write figures for Prometheus to this file.", show_default=False),
]


def archive(
    store: StoreDirectory,
    archive: ArchivePath,
    collection: Collections = None,
    every: Every = None,
    report: ReportDirectory = None,
    metrics: MetricsFile = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Bring an archive up to the store's last commit; create it if there is none. The store may be in use.

    Exit code 3 if it succeeded, but commits are lost: the archive has a gap. Commits from before the archive began do
    not count as lost.
    """
    path = find_store(store)
    pipeline_module()
    from lowtide.pipeline.runs.runs import RunPlace, archiving, run_steps

    place = RunPlace(str(path), archive, _text(report), _text(metrics))
    chosen = tuple(collection) if collection else None
    distance = _distance(every)
    with spark_session(master) as spark:
        steps = dict(archiving(spark, str(path), archive, chosen))
        _repeat(
            lambda tell, stop: run_steps(place, steps, progress=tell, stop=stop),
            what=f"archiving {path}",
            every=distance,
            output=Output(json),
        )


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The config file, TOML.", show_default=False)],
    check: Annotated[bool, typer.Option("--check", help="Only check the file, without running anything.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Run once, even if the file says how often.")] = False,
    every: Every = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Run the jobs of a config file: loads, archive, compaction, vacuum, audit; once, or on its schedule.

    Exit code 3 if it succeeded, but there are gaps, quarantined rows or anomalies.
    """
    output = Output(json)
    pipeline_module()
    from lowtide.pipeline.runs.config import read_config
    from lowtide.pipeline.runs.runs import run as run_once

    chosen = read_config(config)
    if check:
        output.answer({"config": str(config), "ok": True}, f"{config} is right")
        return
    wanted = chosen.every if every is None else _distance(every)
    with spark_session(master or chosen.spark.master, chosen.spark.settings) as spark:
        _repeat(
            lambda tell, stop: run_once(spark, chosen, progress=tell, stop=stop),
            what=f"running {config}",
            every=None if once else wanted,
            output=output,
        )


def audit(
    history: Annotated[
        str,
        typer.Argument(
            metavar="HISTORY", help="A file or directory of JSON Lines or Parquet, or a URI.", show_default=False
        ),
    ],
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="The isolation level that is promised.")
    ] = "SERIALIZABLE",
    pictures: Annotated[
        Path | None,
        typer.Option(
            "--pictures", metavar="DIR", help="Draw each anomaly that is a cycle, as SVG.", show_default=False
        ),
    ] = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Search a history of any size for isolation anomalies, on Spark; exit code 3 if the level forbids one.

    ``lowtide audit`` does the same without Spark, in memory.
    """
    output, pipeline = Output(json), pipeline_module()
    level_of(level)  # a wrong level is reported before Spark is started
    with spark_session(master) as spark, busy(f"auditing {history}") as tell:
        report = pipeline.audit(spark, history, level, progress=tell)
    drawn = [] if pictures is None else report.draw(pictures)
    output.answer(
        {**report.to_dict(), "pictures": list(map(str, drawn))},
        "\n".join([str(report), *(f"picture: {each}" for each in drawn)]),
    )
    if not report.ok:
        raise typer.Exit(ATTENTION)


def status(
    archive: ArchivePath,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", metavar="PATH", help="Its store, to show how far behind the archive is.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the state of an archive: commit, tables, files, gaps, runs. It needs no Spark."""
    output = Output(json)
    found: ArchiveStatus = pipeline_module().status(archive, None if store is None else find_store(store))
    if json:
        output.document(found.to_dict())
    else:
        _show(found, output)


def _show(found: ArchiveStatus, output: Output) -> None:
    when = "" if found.time is None else f", made at {found.time:%Y-%m-%d %H:%M:%SZ}"
    output.say(f"{found.archive}: archived up to commit {found.commit}{when}")
    if found.behind is not None:
        output.say(
            "it has every commit of the store" if not found.behind else f"{found.behind} commits behind the store"
        )
    output.say(f"{found.rows} versions in {found.files} files, {size(found.bytes)}, by {len(found.runs)} runs")
    rows = [(name, each.rows, size(each.bytes), each.files, each.tail) for name, each in found.tables.items()]
    output.table(("table", "versions", "bytes", "files", "not compacted"), rows, none="no tables yet")
    if found.first > 1:
        output.say(f"it begins with commit {found.first}: the store no longer had what came before")
    for each in found.gaps:
        output.say(f"gap: {each}")


Once = Callable[[Tell, "Stop"], "RunReport"]


def _repeat(once: Once, *, what: str, every: float | None, output: Output) -> None:
    """Do one run, or one after the other, and end with the exit code of the last."""
    from lowtide.pipeline.runs.report import RunFailed
    from lowtide.pipeline.runs.schedule import RunStopped, run_every, stop_on_signal

    def work() -> RunReport:
        with busy(what) as tell:
            report = once(tell, stop)
        if output.json:
            output.line(report.to_dict())
        else:
            output.say(str(report), flush=True)
        return report

    with stop_on_signal() as stop:
        if every is not None:
            run_every(work, every, stop=stop, failed=_complain)
            return
        try:
            code = work().exit_code
        except RunStopped as error:
            fail(error, ENDED)
        except RunFailed as error:
            if output.json:
                output.line(error.report.to_dict())
            wrong = isinstance(error.__cause__, UsageError)
            fail(error, WRONG if wrong else FAILED)
    if code:
        raise typer.Exit(code)


def _distance(every: str | None) -> float | None:
    """The seconds between two runs; None for a single one."""
    seconds = None if every is None else seconds_of(every)
    if seconds is not None and seconds <= 0:
        raise UsageError(f"--every takes a duration above 0, such as 15m or 1h, not {every!r}")
    return seconds


def _complain(error: Exception, pause: float) -> None:
    """Report a failed run of a schedule that continues."""
    words = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    print(clean(f"lowtide: {words}; next attempt in {span(pause)}"), file=sys.stderr, flush=True)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
