"""The queue of the group commit: which thread leads, which threads wait, and what is in a group.

A committing thread puts its request into the queue and tries to take the commit lock. The thread that gets it is the
leader: it takes all waiting requests and commits them. The other threads wait, each on a private lock. One that came
too late for the group is woken to lead the next one. A thread that finds the lock free does not wait. A committing
thread only *tries* the lock; see ``_try``.

Commits of other processes are *guests*. A committing thread queues them before its own request, so that they are in the
same group, and answers them after the commit; see ``Guests``. A thread that queues several requests waits for the last
one. It is done after the others, because every leader takes the whole queue. They share one gate: whichever of them is
first in the queue when the lock is released, its gate wakes that thread.

Who writes: any thread appends to the queue (``deque`` operations are atomic), and the leader empties it.

No wake-up is lost: a follower sets its gate, then checks whether it is done, then tries the lock once more, and only
then waits. A leader marks requests done before it looks for their gates, and checks the queue again after it has
released the lock. Whichever comes last sees the other.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Final, Protocol, TypeVar

from lowtide.engine.transaction.callbacks import Callbacks
from lowtide.engine.transaction.request import Request, open_gate
from lowtide.engine.types import Writes
from lowtide.errors import TransientError, UsageError
from lowtide.system.clock import SYSTEM_CLOCK

_Argument = TypeVar("_Argument")
_AT_ONCE: Final = (False,)
"""The arguments of one attempt to acquire a lock without blocking."""


class Guests(Protocol):
    """Commits of other processes that have arrived."""

    look_at: float
    """When a committing thread should look for them, on the monotonic clock."""

    def take(self, requests: list[Request], *, durably: bool = False) -> None:
        """Add them to ``requests``, which is empty. After that, if there are any, ``answer`` must be called."""

    def answer(self) -> None:
        """Answer those that were taken and are done; the others will be sent again."""


class CommitQueue(ABC):
    """The queue and the commit lock. ``Committer`` defines what a commit does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leader = 0  # the thread that holds the lock, written by it under the lock; 0 if none does
        self._queue: deque[Request] = deque()
        self.guests: Guests | None = None
        """Set, by any thread, while processes that commit are connected."""
        self.callbacks = Callbacks()

    @abstractmethod
    def commit_alone(self, request: Request) -> None:
        """Commit one request. The caller holds the lock, and raises the request's error."""

    @abstractmethod
    def _commit_unchanged(self, writes: Writes, payload: bytes, seen: int, token: int, durably: bool) -> int:
        """Commit without a request; see ``commit_at_once``. The caller holds the lock."""

    @abstractmethod
    def _commit(self, group: list[Request]) -> None:
        """Commit a group. Afterwards each member is done, and its gate is open. The caller holds the lock."""

    def commit_at_once(self, writes: Writes, payload: bytes, seen: int, token: int, durably: bool) -> int:
        """Commit writes that are based on the state at ``seen``, if that is still the newest state and no other thread
        is committing. ``token`` is the snapshot that was read, or 0. Returns the timestamp, or 0 if nothing was done:
        the caller must then submit a request. Most commits need no more than this: if nothing was committed since
        ``seen``, there is nothing to validate, whatever was read."""
        guests = self.guests
        if self._queue or (guests is not None and SYSTEM_CLOCK.monotonic() >= guests.look_at):  # point: commit.enter
            return 0
        ts, taken = 0, False
        try:
            try:  # as in ``_try``
                (taken,) = map(self._lock.acquire, _AT_ONCE)  # point: commit.lock
                if taken:
                    self._leader = get_ident()
                    ts = self._commit_unchanged(writes, payload, seen, token, durably)
            finally:
                if taken:
                    self._leader = 0
                    self._lock.release()
        finally:
            if self._queue:  # point: commit.pass
                self._pass_on()
        if self.callbacks.due:
            self.callbacks.run()
        return ts

    def submit(self, request: Request) -> int:
        """Commit ``request``, alone or in a group. Returns its timestamp, once it is as durable as was requested."""
        guests = self.guests
        if guests is not None and SYSTEM_CLOCK.monotonic() >= guests.look_at:
            self._submit_beside(guests, request)
        else:
            self._submit(request, [])
        if self._queue:  # point: commit.pass
            self._pass_on()
        if self.callbacks.due:
            self.callbacks.run()
        if request.error is not None:
            raise request.error
        return request.ts

    def _submit_beside(self, guests: Guests, request: Request) -> None:
        """Commit ``request`` and the requests that have arrived from other processes."""
        arrived: list[Request] = []
        try:
            guests.take(arrived, durably=request.durably)
            self._submit(request, arrived)
        finally:
            if arrived:
                guests.answer()

    def submit_all(self, requests: list[Request]) -> None:
        """Commit requests, as a group if there are several. Returns when they are done; errors are stored in the
        requests."""
        self._submit(requests[-1], requests[:-1])
        if self._queue:
            self._pass_on()

    def _submit(self, request: Request, before: list[Request]) -> None:
        """Commit ``request`` and, in the same group or an earlier one, the requests ``before`` it."""
        taken = False
        try:
            if not before and not self._queue:  # point: commit.enter
                try:  # the same as ``_try``, without a call
                    (taken,) = map(self._lock.acquire, _AT_ONCE)  # point: commit.lock
                    if taken:
                        self._leader = get_ident()
                        self.commit_alone(request)
                finally:
                    if taken:
                        self._leader = 0
                        self._lock.release()
            if not taken:
                self._queue.extend(before)
                self._queue.append(request)  # point: commit.queue
                self._wait(request, before)
        except BaseException:
            self._withdraw(request, before)
            raise

    def _try(self, work: Callable[[_Argument], None], argument: _Argument) -> bool:
        """Do ``work`` under the commit lock, unless it is taken. Never blocks: a thread that gets the lock while it is
        blocked holds it until it has the GIL as well, and all others would queue up behind it."""
        taken = False
        try:
            # The unpacking calls ``acquire``, so no interrupt can come between taking the lock and recording that it is
            # taken.
            (taken,) = map(self._lock.acquire, _AT_ONCE)  # point: commit.lock
            if taken:
                self._leader = get_ident()
                work(argument)
            return taken
        finally:
            if taken:
                self._leader = 0
                self._lock.release()

    def _wait(self, request: Request, before: list[Request]) -> None:
        """Lead, or wait for the leader, until a queued request and those before it are done."""
        while not request.done:
            if self._try(self._lead, request):  # point: commit.lead
                continue
            if self._leader == get_ident():
                raise UsageError("a commit inside a commit: a signal handler or destructor must not commit")
            if request.gate is None:
                gate = threading.Lock()
                gate.acquire()
                for each in before:
                    each.gate = gate
                request.gate = gate  # point: commit.gate
            else:
                request.gate.acquire()  # point: commit.wait

    def _withdraw(self, request: Request, before: list[Request]) -> None:
        """After an interrupt, remove the requests that no leader has taken, and wake the next thread. A request that
        was taken is committed or refused without its thread. Its transaction releases its snapshot; see
        ``Registry.settle``."""
        for each in (*before, request):
            with contextlib.suppress(ValueError):
                self._queue.remove(each)
        self._pass_on()

    def settle(self, request: Request) -> None:
        """Settle a request whose thread was interrupted: if it is not committed when this returns, it never will be."""
        with self.exclusive():
            with contextlib.suppress(ValueError):
                self._queue.remove(request)
            if not request.done:
                request.error = TransientError("the thread that brought this commit was interrupted; retry")
                request.done = True

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the commit lock for a short time. Commits wait meanwhile."""
        try:
            with self._lock:
                self._leader = get_ident()
                try:
                    yield
                finally:
                    self._leader = 0
        finally:
            self._pass_on()

    def try_exclusive(self, work: Callable[[], int]) -> int | None:
        """Do ``work`` under the commit lock if it is free, and return its result. None if the lock is taken; never
        blocks."""
        results: list[int] = []
        try:
            return results[0] if self._try(lambda _: results.append(work()), None) else None
        finally:
            if self._queue:
                self._pass_on()

    def _pass_on(self) -> None:
        """After the lock was released, wake one thread that waits for it."""
        with contextlib.suppress(IndexError):
            open_gate(self._queue[0].gate)

    def _lead(self, request: Request) -> None:
        """Commit everything in the queue, including ``request``. The caller holds the lock."""
        queue = self._queue
        group: list[Request] = []
        try:
            while queue:
                # Add it to the group before it leaves the queue: an interrupt in between must not lose it.
                group.append(queue[0])  # point: commit.take
                queue.popleft()
            self._commit(group)
        except BaseException:
            # An interrupt: no thread may be left waiting. Opening a gate twice is harmless.
            for request in group:
                if not request.done:
                    request.error = TransientError("the thread that led this commit was interrupted; retry")
                    request.done = True
                open_gate(request.gate)
            raise
