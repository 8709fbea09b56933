"""A checkpoint in a process of its own.

In a process with a busy Python thread, a checkpoint of 100,000 rows takes seconds, because every LMDB call waits for
the GIL twice. In a process of its own it takes a fraction of a second. The helper follows the log, so a request only
names the last commit to apply. The helper asks for the live snapshots once it has its write transaction. It is started
when first needed, and serves one request after the other over its standard input and output, as length-prefixed
MessagePack. It ends when its input is closed, that is, with its owner.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from lowtide.engine.base.environment import Base
from lowtide.engine.base.sharing import SharedUse
from lowtide.engine.base.types import MapFull
from lowtide.engine.checkpoint.apply import Applied, CheckpointTarget, apply_checkpoint, changes_of
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.ledger import Cell
from lowtide.engine.log.cursor import LogPosition
from lowtide.engine.log.reader import read_commits
from lowtide.errors import CorruptionError, Error
from lowtide.system.messages import receive, send

_QUIT = b""


class HelperLost(Error):
    """The helper process died or could not be started; the checkpoint is repeated in a thread."""


class HelperDied(HelperLost):
    """The helper process was killed by a signal that LMDB or the machine raises on a damaged page."""


_DEADLY = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)


class HelperRequest(msgspec.Struct, frozen=True):
    """One checkpoint for the helper to make."""

    base: str
    map_size: int
    log: str
    store_id: bytes
    boundary: int
    upto: int
    place: LogPosition | None
    collector: str
    live: tuple[int, ...]
    """The snapshots that were live when the request was made. Versions that none of them needs are not even read."""


class HelperSample(msgspec.Struct, frozen=True):
    """The live snapshots, sent to a helper that has its write transaction."""

    live: tuple[int, ...]
    oldest_writer: int | None


class Response(msgspec.Struct, frozen=True):
    """The result of a request. ``error`` is None on success. With ``asks`` the helper requests a sample first."""

    rows: int = 0
    kept: int = 0
    cells: list[tuple[Cell, int]] | None = None
    map_full: bool = False
    error: str | None = None
    damaged: bool = False
    """Whether the error is a damaged page of the base."""
    asks: bool = False


_decode_response = msgspec.msgpack.Decoder(Response).decode


class Helper:
    """The owner's end. Used by one checkpoint at a time, under the checkpointer's lock."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def checkpoint(self, request: HelperRequest, sample: Callable[[], tuple[Exact, int | None]]) -> Applied:
        """Have the helper apply the checkpoint, send it the live snapshots when it asks, and wait for the result."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, msgspec.msgpack.encode(request))
            answer = receive(process.stdout)
            while answer is not None and (response := _decode_response(answer)).asks:
                horizon, oldest_writer = sample()
                send(process.stdin, msgspec.msgpack.encode(HelperSample(horizon.live, oldest_writer)))
                answer = receive(process.stdout)
        except BaseException as error:
            # An answer left unread would be taken for the answer to the next request.
            code = self.kill()
            if isinstance(error, OSError):
                raise _lost(code, f"the checkpoint helper cannot be reached: {error}") from error
            raise
        if answer is None:
            raise _lost(self.kill(), "the checkpoint helper ended before it answered")
        if response.map_full:
            raise MapFull(response.error or "map full")
        if response.damaged:
            raise CorruptionError(Path(request.base), f"the checkpoint helper failed: {response.error}")
        if response.error is not None:
            raise Error(f"the checkpoint helper failed: {response.error}")
        return Applied(response.rows, response.kept, dict(response.cells) if response.cells is not None else None)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            if not sys.executable or getattr(sys, "frozen", False):
                raise HelperLost("this program does not run in a Python interpreter that could be started again")
            program = (
                f"import sys; sys.path[:] = {sys.path!r}; from lowtide.engine.checkpoint.helper import serve; serve()"
            )
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C in the owner's terminal must not reach the helper
                )
            except (OSError, ValueError) as error:
                raise HelperLost(f"no checkpoint helper could be started: {error}") from error
            return self._process

    @property
    def process_id(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def kill(self) -> int:
        """Kill the helper at once; LMDB undoes its unfinished work. Returns its exit code as ``Popen`` does; if it had
        ended by itself, that code."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        code = process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        return code

    def abandon(self) -> None:
        """Close the copies of the pipes in a forked child, so that the helper notices when its owner ends."""
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    os.close(stream.fileno())

    def close(self) -> None:
        """End the helper, after the checkpoint that it may be running."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            # An explicit message, since a forked child of the owner may hold the pipe open.
            send(process.stdin, _QUIT)
            process.stdin.close()
        process.wait()
        process.stdout.close()


def _lost(code: int, message: str) -> HelperLost:
    """The error for a helper that ended with ``code``."""
    if -code in _DEADLY:
        return HelperDied(f"the checkpoint helper was killed by {signal.Signals(-code).name}")
    return HelperLost(message)


def serve() -> None:
    """The main loop of the helper: requests in, responses out, until the input ends.

    A checkpoint creates millions of objects and no cycles, and the cyclic collector would walk over them again and
    again. So it runs only between requests, when hardly any objects are left.
    """
    gc.disable()
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while data := receive(requests):
        try:
            response = perform(msgspec.msgpack.decode(data, type=HelperRequest), lambda: _ask(requests, responses))
        except MapFull as error:
            response = Response(map_full=True, error=str(error))
        except Exception as error:
            damaged = isinstance(error, CorruptionError) and error.path.name == "data.mdb"
            response = Response(error=f"{type(error).__name__}: {error}", damaged=damaged)
        try:
            send(responses, msgspec.msgpack.encode(response))
        except BrokenPipeError:
            # The owner is gone; what was applied remains. Nothing may be flushed at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), responses.fileno())
            return
        gc.collect()


def _ask(requests: IO[bytes], responses: IO[bytes]) -> HelperSample:
    """Ask the owner for the live snapshots."""
    send(responses, msgspec.msgpack.encode(Response(asks=True)))
    answer = receive(requests)
    if not answer:
        raise HelperLost("the owner ended before it sent the live snapshots")
    return msgspec.msgpack.decode(answer, type=HelperSample)


def perform(request: HelperRequest, ask: Callable[[], HelperSample]) -> Response:
    """Make one checkpoint from the log."""

    def sample() -> tuple[Exact, int | None]:
        sampled = ask()
        return make_horizon(request.collector, sampled.live, request.upto), sampled.oldest_writer

    commits = read_commits(Path(request.log), request.store_id, request.boundary, request.upto, request.place)
    changes = changes_of(commits, make_horizon(request.collector, request.live, request.upto).for_ended())
    with SharedUse(Path(request.base)):
        base = Base(Path(request.base), request.map_size, may_grow=False)
        try:
            applied = apply_checkpoint(base, changes, CheckpointTarget(request.boundary, request.upto, sample))
        finally:
            base.close()
    cells = list(applied.cells.items()) if applied.cells is not None else None
    return Response(applied.rows, applied.kept, cells)
