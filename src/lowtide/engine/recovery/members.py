"""The processes that have a store open: a table in shared memory, with a slot for each.

    members   a page, whose first byte is locked by ``_enter``, with the number of retries that wait in the owner's line
              in its second word · slots of 256 bytes: four words, in the machine's own byte order
              (unanswered, commits, conflicts, role), then who it is, as MessagePack with its length before it

A process holds an open file description lock on the bytes of its slot. The kernel releases the lock when the process
dies, however it dies. So a slot that is not locked is free, whatever it contains. Only the holder writes to a slot. A
word is stored by one instruction, so a reader sees either the old or the new value.

``unanswered`` is a commit. The holder may have sent later commits to the owner that are not answered yet. The log after
``unanswered`` is kept, because only the log shows whether they were committed. The holder stores the word before it
sends. The owner reads it before it releases a part of the log, which is after it has written the commit to the log.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import mmap
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from lowtide.engine.recovery.ownership import describe_holder
from lowtide.errors import StoreLocked
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.system.messages import UNDECODABLE

MEMBERS: Final = "members"

_PAGE: Final = 4096
_SLOT: Final = 256
_SLOTS: Final = 1024
_SIZE: Final = _PAGE + _SLOT * _SLOTS
_WORDS: Final = 4
_UNANSWERED, _COMMITS, _CONFLICTS, _ROLE = range(_WORDS)
_TEXT: Final = _WORDS * 8
_LINE: Final = 1
"""The word of the first page that has the length of the owner's line."""
_NOTHING: Final = (1 << 63) - 1
"""The ``unanswered`` of a process that waits for no answer."""

_PATIENCE, _PAUSE = 1.0, 0.01
"""Seconds to wait for a process that has ended, whose child may hold a copy of its lock for a moment."""


_Found = TypeVar("_Found")


class Who(msgspec.Struct, frozen=True, array_like=True):
    """The process that holds a slot."""

    pid: int
    host: str
    program: str
    since: float


class MemberState(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has the store open: since when (seconds since the epoch), and what it has committed since."""

    pid: int
    host: str
    program: str
    since: float
    role: str
    """``"owner"`` or ``"joined"``."""
    commits: int
    conflicts: int


class Members:
    """The table of one store, and this process's own slot. ``exclusive`` refuses all other processes.

    Raises StoreLocked if another process has the store open and either of the two is exclusive. The slot is released by
    ``close``, or when the process ends. Any thread may call the methods. ``_lock`` guards the commits that wait for
    answers.
    """

    def __init__(self, directory: Path, *, exclusive: bool = False) -> None:
        self._directory = directory
        self._file = os.open(directory / MEMBERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._tokens = itertools.count()
        self._waiting: dict[int, int] = {}
        try:
            if os.fstat(self._file).st_size != _SIZE:
                os.ftruncate(self._file, _SIZE)
            self._enter(exclusive)
            self._start = self._take_slot()
            self._map = _map(directory / MEMBERS)
        except BaseException:
            os.close(self._file)
            raise
        first = self._start // 8
        every = memoryview(self._map).cast("Q")
        self._words, self._line = every[first : first + _WORDS], every[_LINE : _LINE + 1]
        self._words[_UNANSWERED], self._words[_ROLE] = _NOTHING, 0
        self._words[_COMMITS] = self._words[_CONFLICTS] = 0
        self._sign()

    def _enter(self, exclusive: bool) -> None:
        """Lock the whole table: shared with all others, or exclusively."""
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE
        while not _lock_bytes(self._file, fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK, 0, 1):
            if SYSTEM_CLOCK.monotonic() >= deadline:
                raise StoreLocked(self._directory, self._holder())
            SYSTEM_CLOCK.sleep(_PAUSE)

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            if text := (self._directory / "lock").read_bytes():
                return describe_holder(text)
        for each in members_of(self._directory):
            return f"process {each.pid} on {each.host} ({each.program})"
        return describe_holder(b"")

    def _take_slot(self) -> int:
        for start in range(_PAGE, _SIZE, _SLOT):
            if _lock_bytes(self._file, fcntl.F_WRLCK, start, 1):
                return start
        raise StoreLocked(self._directory, f"{_SLOTS} processes, which is the most that can have a store open")

    def _sign(self) -> None:
        program = " ".join(sys.argv[:2]) or sys.executable
        while True:
            who = Who(os.getpid(), socket.gethostname(), program, SYSTEM_CLOCK.time())
            text = msgspec.msgpack.encode(who)
            if len(text) + 2 <= _SLOT - _TEXT:
                break
            program = program[: len(program) // 2]
        data = len(text).to_bytes(2, "little") + text
        self._map[self._start + _TEXT : self._start + _TEXT + len(data)] = data

    def begin_waiting(self, since: int) -> int:
        """Keep the log after commit ``since``, the last published one, until ``end_waiting`` is called with the
        returned token. Called before a commit is sent."""
        token = next(self._tokens)
        with self._lock:
            self._waiting[token] = since
            if since < self._words[_UNANSWERED]:
                self._words[_UNANSWERED] = since
        return token

    def end_waiting(self, token: int) -> None:
        """Stop waiting for a commit: it was answered, or its fate no longer matters."""
        with self._lock:
            waiting = self._waiting
            since = waiting.pop(token, None)
            if not waiting:
                self._words[_UNANSWERED] = _NOTHING
            elif since == self._words[_UNANSWERED]:
                self._words[_UNANSWERED] = min(waiting.values())

    @property
    def waiting(self) -> set[int]:
        """The tokens of the commits that are not answered yet."""
        with self._lock:
            return set(self._waiting)

    def owns(self) -> None:
        """Show the other processes that this process now owns the store."""
        self._words[_ROLE] = 1
        self.line_up(0)

    def line_up(self, places: int) -> None:
        """Show the other processes how many retries wait in the owner's line. Only the owner calls this."""
        self._line[0] = places

    @property
    def lined_up(self) -> int:
        """How many retries wait in the owner's line."""
        return int(self._line[0])

    def count(self, *, commits: int, conflicts: int) -> None:
        """Show the other processes how many commits of this process succeeded, and how many were refused."""
        self._words[_COMMITS], self._words[_CONFLICTS] = commits, conflicts

    def close(self) -> None:
        """Release the slot. A second call does nothing."""
        if self._file >= 0:
            file, self._file = self._file, -1
            self._words = self._line = memoryview(bytearray(_WORDS * 8)).cast("Q")
            with contextlib.suppress(BufferError):  # a thread is writing to it, and keeps the map until then
                self._map.close()
            os.close(file)

    abandon = close
    """In a forked child: the parent keeps the slot."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def members_of(directory: Path) -> list[MemberState]:
    """The processes that have the store open."""
    return _look(directory, _state_at)


def unanswered_since(directory: Path) -> int:
    """The commit after which the log must be kept, because a process waits for the answer to one of its commits."""
    return min(_look(directory, _unanswered_at), default=_NOTHING)


def _look(directory: Path, of: Callable[[bytes], _Found | None]) -> list[_Found]:
    """What ``of`` returns for each held slot. The table is opened again for this, because a lock is not visible through
    the file description that holds it."""
    try:
        file = os.open(directory / MEMBERS, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        slots = (os.pread(file, _SLOT, _PAGE + number * _SLOT) for number in _held(file, 0, _SLOTS))
        return [told for slot in slots if (told := of(slot)) is not None]
    finally:
        os.close(file)


def _held(file: int, first: int, last: int) -> list[int]:
    """The slots from ``first`` up to, but not including, ``last`` that a process holds. If there are several locks, the
    kernel reports only one of them, and not the first, so the range is halved."""
    asked = _flock(fcntl.F_WRLCK, _PAGE + first * _SLOT, (last - first) * _SLOT)
    if _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))[0] == fcntl.F_UNLCK:
        return []
    if last - first == 1:
        return [first]
    middle = (first + last) // 2
    return _held(file, first, middle) + _held(file, middle, last)


def _unanswered_at(slot: bytes) -> int | None:
    return int(struct.unpack_from("=Q", slot, _UNANSWERED * 8)[0])


def _state_at(slot: bytes) -> MemberState | None:
    _, commits, conflicts, role = struct.unpack_from(f"={_WORDS}Q", slot)
    length = int.from_bytes(slot[_TEXT : _TEXT + 2], "little")
    try:
        who = msgspec.msgpack.decode(slot[_TEXT + 2 : _TEXT + 2 + length], type=Who)
    except UNDECODABLE:
        return None  # the process has just taken the slot
    return MemberState(
        pid=who.pid,
        host=who.host,
        program=who.program,
        since=who.since,
        role="owner" if role else "joined",
        commits=commits,
        conflicts=conflicts,
    )


def _map(path: Path) -> mmap.mmap:
    """The mapped table, opened through a file description of its own: a map keeps its description open, and with it the
    locks."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(file, _SIZE)
    finally:
        os.close(file)


_FLOCK: Final = struct.Struct("hhqqi4x")
"""The kernel's ``struct flock``: type, whence, start, length, process."""


def _flock(kind: int, start: int, length: int) -> bytes:
    fields = kind, os.SEEK_SET, start, length, 0
    return _FLOCK.pack(*fields)


def _lock_bytes(file: int, kind: int, start: int, length: int) -> bool:
    """Try to lock bytes of a file for its file description. Returns False if another description holds a lock on
    them."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _flock(kind, start, length))
        return True
    except (BlockingIOError, PermissionError):
        return False
