"""Exceptions out of the blue: at a named point, or at every place where the interpreter may deliver a signal.

CPython runs signal handlers, and so raises KeyboardInterrupt, at three kinds of places: where a function begins, after a
call, and where a loop jumps back. :func:`interrupted` visits exactly these, inside the package, for the current thread.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import lowtide
from tests.support.schedule import POINTS

assert lowtide.__file__ is not None
_PACKAGE = str(Path(lowtide.__file__).parent)

Trace = Callable[[FrameType, str, Any], Any]


@contextlib.contextmanager
def _tracing(trace: Trace) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def raising_at(point: str, error: BaseException, *, times: int = 1) -> Iterator[list[str]]:
    """Raise ``error`` in the place of the line at ``point``, the first ``times`` times that this thread comes there.

    Yields a list that has an entry for each time.
    """
    assert point in POINTS.values(), point
    raised: list[str] = []

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        if event == "line" and POINTS.get((frame.f_code.co_filename, frame.f_lineno)) == point and len(raised) < times:
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
def calling_at(point: str, action: Callable[[], None]) -> Iterator[None]:
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


@functools.cache
def _interruptible(code: CodeType) -> frozenset[int]:
    """The offsets of the instructions before which a signal may be delivered."""
    places = set()
    previous = ""
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if previous.startswith("CALL") or previous == "RESUME" or name.startswith("JUMP_BACKWARD"):
            places.add(instruction.offset)
        previous = name
    return frozenset(places)


@contextlib.contextmanager
def interrupted(nth: int, error: BaseException) -> Iterator[list[str]]:
    """Raise ``error`` at the ``nth`` place inside the package where a signal could be delivered.

    Yields a list that holds the place once it was reached; it stays empty when there were fewer places.
    """
    reached: list[str] = []
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return None
        if event == "call":
            frame.f_trace_opcodes = True
        elif event == "opcode" and frame.f_lasti in _interruptible(code):
            seen += 1
            if seen == nth and not reached:
                reached.append(f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}")
                raise error
        return trace

    with _tracing(trace):
        yield reached
