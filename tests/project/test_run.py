"""The test run itself: it says what it left out, and what started it does not matter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def run(test: str, directory: Path, *before: str) -> str:
    """What pytest says of a file with one test, under the rules of this project."""
    file = directory / "test_it.py"
    file.write_text(f"import pytest\n{test}\n")
    options = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(directory)]
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


@pytest.mark.parametrize(
    "test",
    [
        "def test(): pytest.skip('not today')",
        "@pytest.mark.skip(reason='not today')\ndef test(): pass",
        "pytest.importorskip('what_is_not_installed', reason='not today')\ndef test(): pass",
    ],
)
def test_a_skip_is_a_failure(test: str, tmp_path: Path) -> None:
    told = run(test, tmp_path)
    assert "skipped, which no test may be: Skipped: not today" in told
    assert "1 failed" in told or "1 error" in told


def test_a_skip_for_want_of_java_is_none(tmp_path: Path) -> None:
    test = "from tests.support.java import NO_JAVA\ndef test(): pytest.skip(NO_JAVA + ': no java')"
    assert "1 skipped" in run(test, tmp_path)


def test_a_run_in_the_background_can_interrupt_what_it_starts(tmp_path: Path) -> None:
    """A shell starts its background jobs with SIGINT ignored, which every process below them inherits."""
    test = "import signal\ndef test(): assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert "1 passed" in run(test, tmp_path, "sh", "-c", 'trap "" INT; exec "$@"', "sh")
