"""What is reported if Spark cannot start, and when it can."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from lowtide.errors import UsageError
from lowtide.spark.session import check_java, check_pyspark, explained, java_release, register, session


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_release_of_java_is_read_from_what_it_says(text: str, release: int | None) -> None:
    assert java_release(text) == release


def java(home: Path, script: str, mode: int = 0o700) -> None:
    """A Java that says what the test wants."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(mode)


def says(release: str) -> str:
    return f"#!/bin/sh\necho 'openjdk version \"{release}\"' >&2\n"


@pytest.mark.parametrize("release", ["17.0.15", "21", "25"])
def test_a_java_that_spark_runs_on_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    java(tmp_path, says(release))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    check_java()


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (says("1.8.0_402"), "is Java 8"),
        (says("11.0.2"), "is Java 11"),
        ("#!/bin/sh\nexit 1\n", "does not say which release it is"),
        ("\x7fELF nothing that runs", "cannot be run"),
    ],
)
def test_another_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, what: str
) -> None:
    java(tmp_path, script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        UsageError, match=f"Spark needs Java 17 or 21 or 25, but {re.escape(str(tmp_path))}/bin/java {what}"
    ):
        check_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java: install it .*openjdk-17"):
        check_java()


def test_no_java_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"no java is on the PATH: install it .*, or set JAVA_HOME"):
        check_java()


@pytest.mark.parametrize("version", ["4.3.0", "4.3.1.dev0", "4.3.12"])
def test_a_pyspark_of_this_release_is_taken(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    check_pyspark()


@pytest.mark.parametrize("version", ["3.5.4", "4.0.0", "4.30.0", "5.0.0.dev1"])
def test_another_pyspark_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    with pytest.raises(UsageError, match=rf"PySpark 4\.3, and {version} is installed: pip install 'pyspark==4\.3\.\*'"):
        check_pyspark()


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(UsageError, match=r"pip install 'lowtide\[spark\]'"):
        check_pyspark()


def test_a_session_is_refused_before_anything_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="Spark needs Java"):
        session()


class _Context:
    pythonExec = "python3"

    def __init__(self, master: str) -> None:
        self.master = master


class _Session:
    """Just what the format needs of a session."""

    def __init__(self, master: str) -> None:
        self.sparkContext = _Context(master)
        self.dataSource = self
        self.registered_for: list[str] = []

    def register(self, source: object) -> None:
        self.registered_for.append(self.sparkContext.pythonExec)


@pytest.mark.parametrize(
    ("master", "named", "used"),
    [
        ("local[2]", None, sys.executable),
        ("local-cluster[2,1,1024]", None, sys.executable),
        ("spark://other:7077", None, "python3"),
        ("local[2]", "/opt/python", "python3"),
    ],
)
def test_the_processes_of_a_local_session_run_this_interpreter(
    monkeypatch: pytest.MonkeyPatch, master: str, named: str | None, used: str
) -> None:
    """Unless another is named, and on other machines there may be none of this path."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", named)
    session: Any = _Session(master)
    register(session)
    assert session.registered_for == [used]


def test_an_interpreter_without_lowtide_is_named_with_what_to_set() -> None:
    session: Any = _Session("spark://other:7077")
    message = rf"Spark's processes, python3, has no Lowtide: .* PYSPARK_PYTHON .* {sys.executable}"
    with pytest.raises(UsageError, match=message), explained(session):
        raise RuntimeError("ModuleNotFoundError: No module named 'lowtide'")
    with pytest.raises(RuntimeError, match="another"), explained(session):
        raise RuntimeError("another")
