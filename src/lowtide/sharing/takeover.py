"""What processes need that only read, or only ask the owner something: they do not join the store.

A reader needs a store that is recovered. If it has no owner, the reader owns it for a moment to do that, but it never
stays the owner. There is never a second writer: the store's lock decides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from lowtide.engine.recovery.opening import BACKUP, FORMAT, MANIFEST, read_manifest, recovered
from lowtide.errors import Error, StoreLocked, UsageError
from lowtide.options import Options
from lowtide.sharing.owner import Owner, OwnerGone, reach_owner
from lowtide.sharing.page import Page
from lowtide.system.clock import SYSTEM_CLOCK, Clock

_PATIENCE: Final = 30.0
"""Seconds that a live owner may take for a checkpoint, or for opening the store."""

_PAUSE: Final = 0.01
"""Seconds between two attempts to reach an owner."""

T = TypeVar("T")


def ask_or_take_over(
    path: Path,
    ask: Callable[[Owner], T],
    take_over: Callable[[], T],
    *,
    deadline: Callable[[], float],
    timed_out: Callable[[OwnerGone | StoreLocked], T],
    clock: Clock = SYSTEM_CLOCK,
) -> T:
    """Have the owner of the store do something (``ask``), or do it here if the store has no owner (``take_over``). A
    process that writes joins the store instead, see ``store.access``.

    Both may be tried several times, so what they do must be repeatable: an owner may die after it has done the work and
    before it answers (OwnerGone), and the next owner, or this process, is asked again. StoreLocked from ``take_over``
    means that an owner holds the lock and does not listen: it is opening or closing the store, or cannot create a
    socket.

    ``deadline`` is called after the first of these failures. It returns the time on the clock after which there is no
    further attempt; then the result is that of ``timed_out``, which gets the last failure. Other errors are raised.
    """
    until: float | None = None
    while True:
        failure: OwnerGone | StoreLocked
        try:
            owner = reach_owner(path)
            if owner is None:
                return take_over()
            with owner:
                return ask(owner)
        except (OwnerGone, StoreLocked) as error:
            failure = error
        until = deadline() if until is None else until
        if clock.monotonic() > until:
            return timed_out(failure)
        clock.sleep(_PAUSE)


def check_store(path: Path, options: Options) -> bytes:
    """The id of the store in ``path``; raises UsageError if there is none. A store of an older format is converted."""
    if not (path / MANIFEST).exists():
        raise UsageError(f"there is no Lowtide store in {path}; opening read-only does not create one")
    if (path / BACKUP).exists():
        raise UsageError(f"{path} is a backup; open it with lowtide.open first, which turns it into a store of its own")
    store_id, written_by = read_manifest(path / MANIFEST)
    if written_by != FORMAT:
        refresh(path, options, checkpoint=False)
    return store_id


def refresh(path: Path, options: Options, *, checkpoint: bool) -> None:
    """Ensure that the base, or the log of a live owner, has every commit that was acknowledged before this call; with
    ``checkpoint``, that the base itself has."""

    def ask(owner: Owner) -> None:
        owner.ask("checkpoint" if checkpoint else "hello", timeout=_PATIENCE)

    def timed_out(failure: OwnerGone | StoreLocked) -> None:
        if checkpoint:
            raise Error(f"{failure}; the owner does not answer requests for a checkpoint") from failure
        # Without a checkpoint nothing is needed of the owner: the shared page has its last commit.

    ask_or_take_over(
        path,
        ask,
        lambda: _take_over(path, options),
        deadline=lambda: SYSTEM_CLOCK.monotonic() + _PATIENCE,
        timed_out=timed_out,
    )


def _take_over(path: Path, options: Options) -> None:
    """Own the store for a moment to recover it, which writes the whole log to the base. No log is released, since the
    ``feed_bytes`` of the store's usual owner is not known here."""
    with recovered(path, replace(options, read_only=False, feed_bytes=sys.maxsize)) as opened:
        opened.log.mark()
        page = Page(path, opened.store_id, owner=True)
        page.publish(opened.last_ts)
        page.close()


def tell_of_pins(path: Path) -> None:
    """Have a live owner collect what removed pins held. Without one, the next owner does."""
    owner = reach_owner(path)
    if owner is not None:
        with owner:
            try:
                owner.ask("pins_changed", timeout=1.0)
            except Error:
                return
