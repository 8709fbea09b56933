"""Finds the Spark application and source line that a read is for, so that a pin can be traced to its user.

``lowtide.spark.read`` knows both and passes them to the processes that plan the read. For a read made with
``spark.read``, those processes inspect their ancestors: Spark's JVM, whose command line has the application's name, and
its parent, the user's program.
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
    """Return the line of the user's program that called Lowtide."""
    return str(Origin(*caller()))


def application_of(spark: SparkSession) -> str:
    """Describe a session's application, with its job description if the user has set one."""
    name, number, job = "", "", None
    with contextlib.suppress(Exception):  # not available in a Spark Connect session
        name, number = spark.conf.get("spark.app.name") or "", spark.conf.get("spark.app.id") or ""
    with contextlib.suppress(Exception):
        job = spark.sparkContext.getLocalProperty("spark.job.description")
    described = f"Spark application {name!r}" + (f" {number}" if number else "")
    return described if job is None else f"{described}, job {job!r}"


def owner_of(driver: Identity | None, known: str | None) -> str:
    """Return the owner of a pin: the driver's process, described by ``known`` or else by its command lines."""
    if driver is None:
        return describe_owner("", known)
    return describe_owner("", known or _seen(driver.pid), driver.pid)


def _seen(jvm: int) -> str:
    """Describe the application of a JVM from its command line and that of its parent."""
    named = [each.removeprefix(_NAME) for each in _arguments(jvm) if each.startswith(_NAME)]
    application = f"Spark application {named[-1]!r}" if named else "a Spark application"
    program = _program(_arguments(parent_of(jvm) or 0))
    return f"{application}, {program}" if program else application


def _program(arguments: list[str]) -> str:
    """Return the script or module that a Python process runs.

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
