"""The test run itself: it reports what it left out, and does not depend on what started it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.isolation import world
from tests.support.patience import PATIENCE
from tests.support.quick import FOLDERS, PLACES, SLOW, TESTS, is_slow
from tests.support.workers import OneSession, from_its_share

ROOT = Path(__file__).resolve().parents[2]


TESTS_OF_ALL_KINDS = {
    "test_it.py": """
import os, signal
import pytest
from tests.support.java import NO_JAVA

def test_that_skips(): pytest.skip("not today")

@pytest.mark.skip(reason="not today")
def test_that_is_skipped(): pass

def test_without_java(): pytest.skip(NO_JAVA + ": no java")

def test_in_the_background(): assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

def test_that_ends(): assert "PYTEST_XDIST_WORKER" not in os.environ or os._exit(1)

def test_after_it(): pass
""",
    "test_more.py": """
import pytest
pytest.importorskip("what_is_not_installed", reason="not today")
def test(): pass
""",
}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_tells_of_all_that_was_not_tested(workers: int, tmp_path: Path) -> None:
    """A skip is a failure, but for want of Java. A test that ends its process fails once, and the others are run.

    The run is a background job. A shell starts these with SIGINT ignored, which every process below them inherits:
    tests can interrupt what they start all the same. Where ``CI`` is set, pytest gives each reason twice.
    """
    for name, text in TESTS_OF_ALL_KINDS.items():
        (tmp_path / name).write_text(text)
    options = ["-q", "-rA", "-p", "tests.conftest", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    shared = ["-n", str(workers)] if workers else ["-p", "no:xdist"]
    tells_more = {"CI", "BUILD_NUMBER"}
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_") and name not in tells_more
    }
    background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    done = subprocess.run(
        [*background, sys.executable, "-m", "pytest", *options, *shared, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    told = done.stdout + done.stderr
    reported = re.findall(r"^(PASSED|FAILED|ERROR) \S*/test_(\S+)", told, re.MULTILINE)
    expected = [
        ("PASSED", "it.py::test_in_the_background"),
        ("FAILED" if workers else "PASSED", "it.py::test_that_ends"),
        ("PASSED", "it.py::test_after_it"),
        ("FAILED", "it.py::test_that_skips"),
        ("ERROR", "it.py::test_that_is_skipped"),
        ("ERROR", "more.py"),
    ]
    assert sorted(reported) == sorted(expected), told
    assert told.count("skipped, which no test may be: Skipped: not today") == 3, told
    assert re.search(r"^SKIPPED \[1\].*: no java$", told, re.MULTILINE), told


@pytest.mark.parametrize("workers", [1, 3])
def test_tests_are_shared_out_once_each_and_those_of_spark_first_and_together(workers: int) -> None:
    class Worker:
        shutting_down = False
        gateway = SimpleNamespace(id="a process")

        def __init__(self) -> None:
            self.told: list[int] = []

        def send_runtest_some(self, indexes: list[int]) -> None:
            self.told += indexes

        def shutdown(self) -> None:
            self.shutting_down = True

    tests = [f"tests/spark/test_x.py::test_{number}" for number in range(4)]
    tests += [f"tests/unit/test_y.py::test_{number}[{case}]" for number in range(4) for case in "ab"]
    tests += [f"tests/crash/test_z.py::test[{case}]" for case in "abcd"]
    config = SimpleNamespace(option=SimpleNamespace(loadscopereorder=True, tx=["popen"] * workers, maxprocesses=None))
    config.getvalue = lambda name: getattr(config.option, name)
    scheduler = OneSession(config, SimpleNamespace(loadscopesched=lambda *words: None))
    processes = [Worker() for _ in range(workers)]
    for process in processes:
        scheduler.add_node(process)
    for process in processes:
        scheduler.add_node_collection(process, tests)
    scheduler.schedule()
    ran: list[list[int]] = [[] for _ in processes]
    while any(process.told for process in processes):
        for number, process in enumerate(processes):
            if process.told:
                ran[number].append(process.told.pop(0))
                scheduler.mark_test_complete(process, ran[number][-1])
    assert sorted(each for some in ran for each in some) == list(range(len(tests)))
    assert ran[0][:4] == [0, 1, 2, 3]
    assert scheduler.tests_finished
    assert all(process.shutting_down for process in processes)


def test_what_a_quick_run_takes_and_leaves_out_is_there() -> None:
    """Otherwise a file that was moved would be in the quick run again unnoticed."""
    assert [each for each in (*FOLDERS, *SLOW) if not (TESTS / each).exists()] == []
    assert set(PLACES) < set(world.PLACES)


def test_a_file_in_a_slow_folder_is_slow() -> None:
    assert is_slow(TESTS / "unit/spark")
    assert is_slow(TESTS / "unit/spark/test_snapshot.py")
    assert is_slow(TESTS / "crash/test_lock.py")
    assert not is_slow(TESTS / "unit/values/test_codec.py")
    assert not is_slow(TESTS)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_process_imports_all_modules_from_another_one_on(count: int) -> None:
    modules = [f"test_{number:02d}" for number in range(10)]
    orders = [from_its_share(modules, number=number, count=count) for number in range(count)]
    assert all(sorted(order) == modules for order in orders)
    assert len({order[0] for order in orders}) == count
    replaced = from_its_share(modules, number=count, count=count)  # of a process that ended
    assert sorted(replaced) == modules
