"""One commit on its way to the log."""

from __future__ import annotations

import contextlib
import threading

from lowtide.engine.transaction.callbacks import Callback
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.types import Names, Writes


class Request:
    """One commit on its way. Filled by its thread, then owned by the leader until ``done``.

    ``token`` is the live snapshot against which the first committer wins; 0 lets the last one win. ``seen`` is the
    commit as of which ``payload`` tells what was there before: the snapshot's, if there is one; a request without one
    must be told again, for ``time``, if others have committed since. ``names`` are the keyspaces that the log does not
    know yet.
    """

    __slots__ = (
        "callbacks",
        "done",
        "durably",
        "error",
        "gate",
        "guards",
        "names",
        "payload",
        "reads",
        "replaced",
        "seen",
        "time",
        "token",
        "ts",
        "writes",
    )

    def __init__(
        self,
        writes: Writes,
        *,
        seen: int,
        time: float,
        payload: bytes,
        durably: bool,
        names: Names | None,
        token: int = 0,
        reads: ReadSet | None = None,
        callbacks: list[Callback] | None = None,
        guards: Guards | None = None,
        replaced: frozenset[bytes] | None = None,
    ) -> None:
        self.writes = writes
        self.seen = seen
        self.time = time
        self.payload = payload
        self.durably = durably
        self.names = names
        self.token = token
        self.reads = reads
        self.callbacks = callbacks
        self.guards = guards
        self.replaced = replaced
        self.gate: threading.Lock | None = None
        self.done = False
        self.error: BaseException | None = None
        self.ts = 0


def open_gate(gate: threading.Lock | None) -> None:
    """Wake the thread behind ``gate``. It may have been woken already: then it will look for itself."""
    if gate is not None:
        with contextlib.suppress(RuntimeError):
            gate.release()
