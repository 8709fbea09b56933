"""Which Spark application a read is for, and which line of it: so that a pin can be traced to its user.

``lowtide.spark.read`` knows both, and hands them to the processes that plan the read. Of a read in Spark's own words
these find out by themselves: Spark's JVM is above them, its command line has the application's name, and the process
above that is the user's program.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.engine import Origin, caller, describe_owner
from lowtide.system.identity import Identity, parent_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "spark.app.name="


def user_line() -> str:
    """The line of the user's program that called into Lowtide."""
    return str(Origin(*caller()))


def application_of(spark: SparkSession) -> str:
    """The application of a session in words, with its job if the user has described it."""
    name, number, job = "", "", None
    with contextlib.suppress(Exception):  # what a session of Spark Connect does not tell
        name, number = spark.conf.get("spark.app.name") or "", spark.conf.get("spark.app.id") or ""
    with contextlib.suppress(Exception):
        job = spark.sparkContext.getLocalProperty("spark.job.description")
    described = f"Spark application {name!r}" + (f" {number}" if number else "")
    return described if job is None else f"{described}, job {job!r}"


def owner_of(driver: Identity | None, known: str | None) -> str:
    """Who a pin is for: the driver's process, with what is ``known`` of it, else with what its processes tell."""
    if driver is None:
        return describe_owner("", known)
    return describe_owner("", known or _seen(driver.pid), driver.pid)


def _seen(jvm: int) -> str:
    """The application of a JVM, by the command lines of it and of the program that started it."""
    named = [each.removeprefix(_NAME) for each in _arguments(jvm) if each.startswith(_NAME)]
    application = f"Spark application {named[-1]!r}" if named else "a Spark application"
    program = _program(_arguments(parent_of(jvm) or 0))
    return f"{application}, {program}" if program else application


def _program(arguments: list[str]) -> str:
    """The script or the module that a Python process runs.

    >>> _program(["/usr/bin/python3", "-u", "jobs/report.py", "2026"])
    'report.py'
    >>> _program(["python", "-m", "jobs.report"])
    'jobs.report'
    """
    rest = arguments[1:]
    while rest and rest[0].startswith("-"):
        if rest[0] in ("-m", "-c"):
            return rest[1] if rest[0] == "-m" and len(rest) > 1 else ""
        rest = rest[2:] if rest[0] in ("-W", "-X") else rest[1:]
    return os.path.basename(rest[0]) if rest else ""


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []
