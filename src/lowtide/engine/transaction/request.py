"""A request: one commit on its way to the log."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from lowtide.engine.transaction.callbacks import Callback
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.types import Names, Writes
from lowtide.errors import TransientError

JOINED: Final = -1
"""The token of a commit whose snapshot is in another process. No registration has it."""


class Alone(Protocol):
    """A statement whose request has no snapshot; see ``engine/statements/alone``. ``relied_on`` are the full keys that
    it relies on besides those that it writes. ``scanned`` says that it relies on more than these keys."""

    relied_on: Iterable[bytes]
    scanned: bool

    def again(self, request: Request, earlier: Sequence[Request]) -> bool: ...


class Request(msgspec.Struct, kw_only=True, eq=False):
    """One commit on its way to the log. Filled by its own thread, then owned by the leader until ``done``.

    ``token`` is the live snapshot against which the first committer wins; with 0, the last one wins. ``seen`` is the
    commit as of which ``payload`` records the values before the commit: that of the snapshot, if there is one. The
    payload of a request without a snapshot must be encoded again, with the same ``time``, if others have committed
    since. ``names`` are the keyspaces that the log does not know yet. ``merging`` are the prefixes of the keyspaces in
    which its puts merge with equal ones, and ``merged`` are the keys for which validation found that they do.

    ``lease`` is set for the commit of a joined process, which has no snapshot here. It returns the reason why what the
    validation relies on may be gone. ``token`` is then ``JOINED``, or 0 if the last one wins. ``identity`` is in the
    payload. ``untold`` says that the payload lacks the values before the commit.

    ``alone`` is set for a statement that has no snapshot, but must not lose an update: what it relies on is compared.

    This is a Struct because every commit creates one: with so many fields an ``__init__`` takes eight times as long.
    """

    writes: Writes
    seen: int
    time: float
    payload: bytes
    durably: bool
    names: Names | None
    token: int = 0
    lease: Callable[[], TransientError | None] | None = None
    identity: bytes | None = None
    untold: bool = False
    reads: ReadSet | None = None
    callbacks: list[Callback] | None = None
    guards: Guards | None = None
    merging: frozenset[bytes] = frozenset()
    merged: set[bytes] | None = None
    replaced: frozenset[bytes] | None = None
    gate: threading.Lock | None = None
    done: bool = False
    error: BaseException | None = None
    ts: int = 0
    alone: Alone | None = None
    recorded: Any = None
    """The transaction, if it records what it does; see ``recording``."""


def open_gate(gate: threading.Lock | None) -> None:
    """Wake the thread behind ``gate``. It may have been woken already: then it checks for itself."""
    if gate is not None:
        with contextlib.suppress(RuntimeError):
            gate.release()
