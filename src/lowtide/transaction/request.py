"""One commit on its way to the log."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lowtide.log.frame import Before, Names, Writes
from lowtide.transaction.callbacks import Callback
from lowtide.transaction.reads import ReadSet


class Request:
    """One commit on its way. Filled by its thread, then owned by the leader until ``done``."""

    # Defaults live on the class: most commits set none of them.
    token = 0
    since: int | None = None
    """The snapshot against which the first committer wins; None lets the last one win."""
    reads: ReadSet | None = None
    names: Names | None = None
    """The keyspaces that the log does not know yet."""
    callbacks: list[Callback] | None = None
    seen = 0
    """The commit as of which ``payload`` tells what was there before. One that is not validated must be told again if
    others have committed since."""
    encode: Callable[[Before], bytes] | None = None
    """Makes the payload of such a request anew, for what was there before."""
    gate: threading.Lock | None = None
    done = False
    error: BaseException | None = None
    ts = 0

    def __init__(self, writes: Writes, payload: bytes, durably: bool) -> None:
        self.writes = writes
        self.payload = payload
        self.durably = durably
