"""The test run itself: it says what it left out, and what started it does not matter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.patience import PATIENCE
from tests.support.quick import FOLDERS, SLOW, TESTS
from tests.support.workers import OneSession

ROOT = Path(__file__).resolve().parents[2]


def run(test: str, directory: Path, *before: str, workers: int = 0) -> str:
    """What pytest says of a file with this test, under the rules of this project."""
    file = directory / "test_it.py"
    file.write_text(f"import pytest\n{test}\n")
    shared = ["-n", str(workers)] if workers else ["-p", "no:xdist"]
    options = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", *shared, "--rootdir", str(directory)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*before, sys.executable, "-m", "pytest", *options, str(file)],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "test",
    [
        "def test(): pytest.skip('not today')",
        "@pytest.mark.skip(reason='not today')\ndef test(): pass",
        "pytest.importorskip('what_is_not_installed', reason='not today')\ndef test(): pass",
    ],
)
def test_a_skip_is_a_failure(test: str, workers: int, tmp_path: Path) -> None:
    told = run(test, tmp_path, workers=workers)
    assert "skipped, which no test may be: Skipped: not today" in told
    assert "1 failed" in told or "1 error" in told


def test_a_skip_for_want_of_java_is_none(tmp_path: Path) -> None:
    test = "from tests.support.java import NO_JAVA\ndef test(): pytest.skip(NO_JAVA + ': no java')"
    assert "1 skipped" in run(test, tmp_path)


def test_a_run_in_the_background_can_interrupt_what_it_starts(tmp_path: Path) -> None:
    """A shell starts its background jobs with SIGINT ignored, which every process below them inherits."""
    test = "import signal\ndef test(): assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert "1 passed" in run(test, tmp_path, "sh", "-c", 'trap "" INT; exec "$@"', "sh")


def test_a_test_that_ends_its_process_fails_once_and_the_others_are_run(tmp_path: Path) -> None:
    test = "import os\ndef test_before(): pass\ndef test(): os._exit(1)\ndef test_after(): pass"
    assert "1 failed, 2 passed" in run(test, tmp_path, workers=1)


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
    """Else a file that was moved would be in the quick run again, and nobody would notice."""
    assert [each for each in (*FOLDERS, *SLOW) if not (TESTS / each).exists()] == []
