"""A checkpoint in a process of its own.

Beside a busy Python thread a checkpoint of 100,000 rows takes seconds, because every LMDB call waits for the GIL twice;
in another process it takes a fraction of one. The helper follows the log, so it is told nothing but how far to go and
who lives. It is started when first needed, serves one request after the other over its standard input and output as
length-prefixed MessagePack, and ends when its input does, that is with its owner.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from struct import Struct
from typing import IO

import lmdb
import msgspec

from lowtide.base.environment import Base
from lowtide.base.sharing import SharedUse
from lowtide.checkpoint.apply import Applied, Target, apply_checkpoint, changes_of
from lowtide.errors import Error
from lowtide.garbage.horizon import make_horizon
from lowtide.log.reader import read_commits

_LENGTH = Struct("<I")
_QUIT = b""


class HelperLost(Error):
    """The helper process died or could not be started; the checkpoint is repeated in a thread."""


class Request(msgspec.Struct, frozen=True):
    """One checkpoint for the helper to make."""

    base: str
    map_size: int
    log: str
    store_id: bytes
    boundary: int
    upto: int
    live: tuple[int, ...]
    collector: str
    oldest_writer: int | None


class Response(msgspec.Struct, frozen=True):
    """What came of it; ``error`` is None when all went well."""

    rows: int = 0
    kept: int = 0
    map_full: bool = False
    error: str | None = None


class Helper:
    """The owner's end. Used by one checkpoint at a time, under the checkpointer's lock."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def checkpoint(self, request: Request) -> Applied:
        """Have the helper apply the checkpoint, and wait for it."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, msgspec.msgpack.encode(request))
            answer = _receive(process.stdout)
        except BaseException as error:
            # An answer that nobody took would be taken for the answer to the next request.
            self.kill()
            if isinstance(error, OSError):
                raise HelperLost(f"the checkpoint helper cannot be reached: {error}") from error
            raise
        if answer is None:
            self.kill()
            raise HelperLost("the checkpoint helper ended before it answered")
        response = msgspec.msgpack.decode(answer, type=Response)
        if response.map_full:
            raise lmdb.MapFullError(response.error or "map full")
        if response.error is not None:
            raise Error(f"the checkpoint helper failed: {response.error}")
        return Applied(response.rows, response.kept)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            if not sys.executable or getattr(sys, "frozen", False):
                raise HelperLost("this program is not run by a Python interpreter that could be started again")
            program = f"import sys; sys.path[:] = {sys.path!r}; from lowtide.checkpoint.helper import serve; serve()"
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # an interrupt typed at the owner's terminal is not for the helper
                )
            except (OSError, ValueError) as error:
                raise HelperLost(f"no checkpoint helper could be started: {error}") from error
            return self._process

    @property
    def process_id(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def kill(self) -> None:
        """End the helper at once; LMDB undoes what it was in the middle of."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def abandon(self) -> None:
        """In a forked child: give up the copies of the pipes, so that the helper sees when its owner ends."""
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    os.close(stream.fileno())

    def close(self) -> None:
        """End the helper, after the checkpoint that it may be making."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            # Said in words, since a forked child of the owner may hold the pipe open.
            _send(process.stdin, _QUIT)
            process.stdin.close()
        process.wait()
        process.stdout.close()


def serve() -> None:
    """The helper's end: requests in, responses out, until the input ends."""
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while data := _receive(requests):
        try:
            response = perform(msgspec.msgpack.decode(data, type=Request))
        except lmdb.MapFullError as error:
            response = Response(map_full=True, error=str(error))
        except Exception as error:
            response = Response(error=f"{type(error).__name__}: {error}")
        try:
            _send(responses, msgspec.msgpack.encode(response))
        except BrokenPipeError:
            # The owner is gone; what was applied stands. Nothing may be flushed at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), responses.fileno())
            return


def perform(request: Request) -> Response:
    """Make one checkpoint from the log."""
    horizon = make_horizon(request.collector, request.live, request.upto)
    commits = read_commits(Path(request.log), request.store_id, request.boundary, request.upto)
    changes = changes_of(commits, horizon)
    with SharedUse(Path(request.base)):
        base = Base(Path(request.base), request.map_size, may_grow=False)
        try:
            applied = apply_checkpoint(
                base, changes, Target(request.boundary, request.upto, horizon, request.oldest_writer)
            )
        finally:
            base.close()
    return Response(applied.rows, applied.kept)


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None
