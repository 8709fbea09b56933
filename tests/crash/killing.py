"""Kills a store at a chosen line: for each request this process forks a child, which runs a life and dies at that line.

``python -m tests.crash.killing``: a request is a line of JSON, and so is the answer. The child is traced. At the n-th
visit to a place, which is a named point or a line of the package, it sends SIGKILL to itself. The next owner finds what
was handed to the operating system until then.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import lowtide
from tests.crash.lives import Life, NotingDisk
from tests.crash.stores import child, lines_of
from tests.support.points import POINTS

assert lowtide.__file__ is not None
_PACKAGE = str(Path(lowtide.__file__).parent)


class Killer:
    """Watches all threads of this process, and ends it at the ``nth`` visit to ``place``; counts visits to all places
    if none is given, else to that one only, since watching less is quicker."""

    def __init__(self, place: str, nth: int) -> None:
        self._place = place
        self._nth = nth
        self._lines = {f"{file[len(_PACKAGE) + 1 :]}:{line}" for (file, line), name in POINTS.items() if name == place}
        self._lines.add(place)
        self._watched: dict[int, tuple[CodeType, bool]] = {}
        self.visits: Counter[str] = Counter()
        """Of points by name, of lines as "file:number"; in the order of the first visit."""

    def watch(self) -> None:
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) or (event == "call" and not self._is_watched(frame.f_code)):
            return None
        if event == "line":
            line = frame.f_lineno
            self._visit(f"{file[len(_PACKAGE) + 1 :]}:{line}")
            if (point := POINTS.get((file, line))) is not None:
                self._visit(point)
        return self._trace

    def _is_watched(self, code: CodeType) -> bool:
        known = self._watched.get(id(code))
        if known is None:
            file = code.co_filename[len(_PACKAGE) + 1 :]
            watched = not self._place or any(f"{file}:{line}" in self._lines for _, _, line in code.co_lines())
            known = self._watched[id(code)] = (code, watched)
        return known[1]

    def _visit(self, place: str) -> None:
        self.visits[place] += 1
        if place == self._place and self.visits[place] == self._nth:
            os.kill(os.getpid(), signal.SIGKILL)


def _live(path: str, notes: str, options: dict[str, Any], place: str, nth: int) -> None:
    """Live a life in this process, which ends with it."""
    try:
        killer = Killer(place, nth)
        killer.watch()
        Life(Path(path), disk=NotingDisk(Path(notes)), lossy=False, **options).live()
        Path(notes).with_suffix(".visits").write_text(json.dumps(killer.visits))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if os.fork() == 0:
            _live(**request)
        _, status = os.wait()
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


@contextlib.contextmanager
def kills(path: Path) -> Iterator[Kills]:
    with child("from tests.crash.killing import main; main()") as server:
        yield Kills(server, path)


class Kills:
    """The server, as a test talks to it."""

    def __init__(self, server: Any, path: Path) -> None:
        self._server = server
        self._answers = lines_of(server)
        self.store = path / "store"
        self.notes = path / "notes"

    def live(self, options: dict[str, Any], place: str = "", nth: int = 0) -> bool:
        """Live a life up to the ``nth`` visit to ``place``; false if it never came there."""
        request = {"path": str(self.store), "notes": str(self.notes), "options": options, "place": place, "nth": nth}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        code = next(self._answers)
        assert code in (0, -signal.SIGKILL), f"the life ended with {code}, see its error output"
        return bool(code)

    def visits(self) -> dict[str, int]:
        """How often the life that was lived to its end came by each place."""
        found: dict[str, int] = json.loads(self.notes.with_suffix(".visits").read_text())
        return found
