"""Raises exceptions at a named point, or at every place where the interpreter may deliver a signal.

CPython runs signal handlers, and so raises KeyboardInterrupt, at three kinds of places: where a function begins, after
a call, and where a loop jumps back. :func:`interrupted` visits these places inside the package, in the current thread.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from zlib import crc32

import lowtide
from lowtide.system.build import BUILD
from tests.support.attack import FULL, SAMPLE
from tests.support.points import POINTS

assert lowtide.__file__ is not None
_PACKAGE = str(Path(lowtide.__file__).parent)
_FINALIZER = weakref.finalize.__call__.__code__

Trace = Callable[[FrameType, str, Any], Any]
Lines = Callable[[CodeType], frozenset[int | None]]


@contextlib.contextmanager
def _tracing(trace: Trace) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def raising_at(point: str, error: BaseException, *, times: int = 1, after: int = 0) -> Iterator[list[str]]:
    """Raise ``error`` in the place of the line at ``point``, the first ``times`` times that this thread comes there
    after it has come ``after`` times.

    Yields a list that has an entry for each time.
    """
    assert point in POINTS.values(), point
    raised: list[str] = []
    passed = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal passed
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        if event == "line" and POINTS.get((frame.f_code.co_filename, frame.f_lineno)) == point:
            passed += 1
            if passed > after and len(raised) < times:
                raised.append(point)
                raise error
        return trace

    def again(frame: FrameType, event: str, argument: Any) -> Any:
        # The interpreter forgets a trace function that raised: set it once more for the next time.
        if len(raised) < times:
            sys.settrace(again)
        return trace(frame, event, argument)

    with _tracing(again):
        yield raised


@contextlib.contextmanager
def calling_at(point: str, action: Callable[[], object]) -> Iterator[None]:
    """Run ``action`` before the line at ``point``, each time that this thread comes there."""
    assert point in POINTS.values(), point

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        if event == "line" and POINTS.get((frame.f_code.co_filename, frame.f_lineno)) == point:
            action()
        return trace

    with _tracing(trace):
        yield


_known: dict[int, tuple[CodeType, dict[int, int | None]]] = {}
"""By the identity of the code, which is kept so that it stays the same: the hash of a code goes through all of it."""


def _interruptible(code: CodeType) -> dict[int, int | None]:
    known = _known.get(id(code))
    if known is None:
        known = _known[id(code)] = (code, _places(code))
    return known[1]


def _places(code: CodeType) -> dict[int, int | None]:
    """The offsets of the instructions before which an interrupt may be raised as the interpreter would raise it, and
    their lines.

    It does so at the end of a call, under the handlers of the call. Here it can only be raised at the beginning of the
    next instruction; where other handlers apply to that, as at the end of a ``with`` block, the place is left out. So
    is a jump that the compiler has left out of the handlers of its loop.
    """
    places = []
    handler = _handlers(code)
    instructions = list(dis.get_instructions(code))
    for before, instruction in pairwise(instructions):
        called = before.opname.startswith(("CALL", "RESUME")) and "INTRINSIC" not in before.opname
        jumps_back = instruction.opname.startswith("JUMP_BACKWARD")
        if (called or jumps_back) and handler(before.offset) == handler(instruction.offset):
            places.append(instruction.offset)
    lines = {offset: line for start, end, line in code.co_lines() for offset in range(start, end)}
    return {offset: lines[offset] for offset in places}


def _handlers(code: CodeType) -> Callable[[int], int | None]:
    """The exception handler that applies to an instruction of ``code``."""
    entries: list[Any] = dis._parse_exception_table(code)  # type: ignore[attr-defined]

    def handler(offset: int) -> int | None:
        return next((entry.target for entry in entries if entry.start <= offset < entry.end), None)

    return handler


Place = tuple[str, str, int, int]
"""File, function, offset of an instruction, and how often the run had come by it before."""


class Places:
    """Where a piece of work was interrupted: at each place, at up to ``visits`` of the visits that a run makes to it.

    With ``one_in``, only one in this many places is tried, another one in the next run; all of them in the full attack,
    and in the compiled build, which has far fewer. Two with another ``nth`` have no place in common, and with each
    ``nth`` below ``one_in`` every place is tried.
    """

    def __init__(self, visits: int = 2, *, one_in: int = 1, nth: int = 0) -> None:
        self.visits = visits
        self._one_in = 1 if FULL or BUILD == "compiled" else one_in
        self._nth = (nth + SAMPLE) % self._one_in
        self._tried: set[Place] = set()
        self._open: dict[int, frozenset[int | None]] = {}

    def __len__(self) -> int:
        return len(self._tried)

    def __contains__(self, place: Place) -> bool:
        return place in self._tried or (
            self._one_in > 1 and crc32(repr(place[1:3]).encode()) % self._one_in != self._nth
        )

    def add(self, code: CodeType, place: Place) -> None:
        self._tried.add(place)
        del self._open[id(code)]

    def open_lines(self, code: CodeType) -> frozenset[int | None]:
        """The lines of ``code`` with a place that was not tried. Only these need to be watched closely, so a run is
        quick as far as others have come."""
        lines = self._open.get(id(code))
        if lines is None:
            lines = self._open[id(code)] = frozenset(
                line
                for offset, line in _interruptible(code).items()
                for nth in range(self.visits)
                if (code.co_filename, code.co_qualname, offset, nth) not in self
            )
        return lines


@contextlib.contextmanager
def interrupted(
    tried: Places, error: BaseException, *, sparing: tuple[str, ...] = (), only: tuple[str, ...] = ()
) -> Iterator[list[str]]:
    """Raise ``error`` at the first place inside the package where a signal could be delivered and that is not in
    ``tried``, and put it there. Repeated until nothing is raised, the same work is interrupted everywhere.

    Yields a list that tells the place once it was reached; it stays empty when all places were tried. Destructors are
    left out, since the interpreter swallows what they raise, and the functions named by ``sparing``; so are all but
    ``only`` these functions, if some are named.
    """
    reached: list[str] = []
    visited: Counter[tuple[str, str, int]] = Counter()

    def lines(code: CodeType) -> frozenset[int | None]:
        left_out = code.co_qualname in sparing or (only and code.co_qualname not in only)
        return frozenset() if left_out else tried.open_lines(code)

    def visit(frame: FrameType) -> None:
        code = frame.f_code
        if reached or frame.f_lasti not in _interruptible(code):
            return
        where = (code.co_filename, code.co_qualname, frame.f_lasti)
        place = (*where, min(visited[where], tried.visits - 1))
        visited[where] += 1
        if place not in tried and not _in_destructor(frame):
            tried.add(code, place)
            reached.append(f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_qualname}")
            raise error

    try:
        with _watching(visit, reached, lines):
            yield reached
    finally:
        # The error, the frames it came through and the watcher refer to each other: let go of what they hold.
        error.__traceback__ = error.__context__ = None


@contextlib.contextmanager
def looking(look: Callable[[str], None]) -> Iterator[None]:
    """Call ``look`` at every place inside the package where a signal could be delivered, with words for the place."""

    def visit(frame: FrameType) -> None:
        if frame.f_lasti in _interruptible(frame.f_code):
            look(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_qualname}")

    with _watching(visit):
        yield


def _in_destructor(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code is _FINALIZER:
            return True
        frame = frame.f_back
    return False


if sys.version_info >= (3, 12):
    _TOOL = 4

    @contextlib.contextmanager
    def _watching(
        visit: Callable[[FrameType], None], over: Sequence[str] = (), lines: Lines | None = None
    ) -> Iterator[None]:
        """Have ``visit`` called before each instruction that this thread executes inside the package, or at least in
        these ``lines`` of it, until it is ``over``."""
        watched = threading.get_ident()

        def look(code: CodeType, offset: int) -> None:
            if not over and threading.get_ident() == watched:
                visit(sys._getframe(1))

        monitoring = sys.monitoring
        monitoring.use_tool_id(_TOOL, "interrupts")
        monitoring.register_callback(_TOOL, monitoring.events.INSTRUCTION, look)
        codes = [code for code in _codes() if lines is None or lines(code)]
        for code in codes:
            monitoring.set_local_events(_TOOL, code, monitoring.events.INSTRUCTION)
        try:
            yield
        finally:
            for code in codes:
                monitoring.set_local_events(_TOOL, code, 0)
            monitoring.free_tool_id(_TOOL)

    @functools.cache
    def _codes() -> list[CodeType]:
        """The code of all functions of the package, inner ones included."""
        found: set[CodeType] = set()
        modules = [module for name, module in sys.modules.items() if name.startswith("lowtide")]
        waiting: list[object] = [each for module in modules for each in vars(module).values()]
        while waiting:
            each = waiting.pop()
            if isinstance(each, CodeType):
                if each.co_filename.startswith(_PACKAGE) and each not in found:
                    found.add(each)
                    waiting += each.co_consts
            elif isinstance(each, type):
                waiting += vars(each).values() if each.__module__.startswith("lowtide") else ()
            elif isinstance(each, property):
                waiting.append(each.fget)
            else:
                inner = inspect.unwrap(each) if callable(each) else each
                code = getattr(getattr(inner, "__func__", inner), "__code__", None)
                waiting += [code] if isinstance(code, CodeType) else []
        return list(found)

else:

    @contextlib.contextmanager
    def _watching(
        visit: Callable[[FrameType], None], over: Sequence[str] = (), lines: Lines | None = None
    ) -> Iterator[None]:
        """Have ``visit`` called before each instruction that this thread executes inside the package, or at least in
        these ``lines`` of it, until it is ``over``."""

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            code = frame.f_code
            if over or not code.co_filename.startswith(_PACKAGE):
                return None
            if event == "opcode":
                visit(frame)
            elif lines is None:
                frame.f_trace_opcodes = True
                frame.f_trace_lines = False
            elif watched := lines(code):
                frame.f_trace_opcodes = frame.f_lineno in watched or None in watched
            elif event == "call":
                return None
            else:
                frame.f_trace_opcodes = False
            return trace

        with _tracing(trace):
            yield
