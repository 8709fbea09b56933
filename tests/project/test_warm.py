"""The warm processes that tests start behave like new interpreters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE
from tests.support.warm import start

SHOWS = """
import json, os, random, sys, threading
import lowtide
print(json.dumps({
    "arguments": sys.argv, "main": __name__, "pid": os.getpid(), "directory": os.getcwd(), "path": sys.path,
    "variable": os.environ.get("LOWTIDE_SHOWN"), "threads": threading.active_count(), "drawn": random.random(),
    "files": sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1], "lowtide": lowtide.__file__,
}), flush=True)
"""


def test_it_has_the_surroundings_of_whoever_starts_it_and_nothing_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lowtide

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWTIDE_SHOWN", "yes")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    started = [start(SHOWS, "one", 2) for _ in range(2)]
    shown = [json.loads(each.stdout.readline()) for each in started]
    assert [each.wait(PATIENCE) for each in started] == [0, 0]
    for process, found in zip(started, shown, strict=True):
        assert found["arguments"] == ["-c", "one", "2"]
        assert (found["main"], found["threads"], found["variable"]) == ("__main__", 1, "yes")
        assert found["pid"] == process.pid != os.getpid()
        assert (found["directory"], found["path"][0]) == (str(tmp_path), str(tmp_path / "modules"))
        assert found["files"] == [0, 1, 2]
        assert found["lowtide"] == lowtide.__file__
        process.close()
    assert shown[0]["drawn"] != shown[1]["drawn"]


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("import atexit; atexit.register(print, 'at its end'); print('done')", 0, "done\nat its end\n"),
        ("raise SystemExit(3)", 3, ""),
        ("import os; os.close(2); raise ValueError", 1, ""),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import threading; threading.Timer(0.01, print, ['late']).start()", 0, "late\n"),
    ],
)
def test_it_ends_as_any_process_does(program: str, code: int, said: str) -> None:
    process = start(program)
    assert process.stdout.read() == said
    assert process.wait(PATIENCE) == process.poll() == process.returncode == code
    process.kill()
    process.close()


def test_one_that_is_waited_for_in_vain_can_be_killed() -> None:
    process = start("input()")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    process.kill()
    assert process.wait(PATIENCE) == -signal.SIGKILL
    process.close()
