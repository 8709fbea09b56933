"""Bringing the base up to date from another process: by its owner if one lives, by taking the store over if none
does."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from lowtide.engine.recovery.opening import BACKUP, FORMAT, MANIFEST, read_manifest, recovered
from lowtide.errors import Error, StoreLocked, UsageError
from lowtide.options import Options
from lowtide.sharing.owner import OwnerGone, reach_owner
from lowtide.sharing.page import Page

_PATIENCE = 30.0
"""Seconds that a living owner may take for a checkpoint, or for opening the store."""

_PAUSE = 0.01


def check_store(path: Path, options: Options) -> bytes:
    """The id of the store in ``path``; refuses what is none. One of an older format is brought to this one."""
    if not (path / MANIFEST).exists():
        raise UsageError(f"there is no Lowtide store in {path}; a store that is only read is not made")
    if (path / BACKUP).exists():
        raise UsageError(f"{path} is a backup, which reading would make a store of its own: open it with lowtide.open")
    store_id, written_by = read_manifest(path / MANIFEST)
    if written_by != FORMAT:
        refresh(path, options, checkpoint=False)
    return store_id


def refresh(path: Path, options: Options, *, checkpoint: bool) -> None:
    """See to it that the base, or else the log of a living owner, has every commit that was acknowledged before this
    call; with ``checkpoint``, that the base itself has."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            owner = reach_owner(path)
            if owner is not None:
                with owner:
                    owner.ask("checkpoint" if checkpoint else "hello", timeout=_PATIENCE)
                return
            _take_over(path, options)
            return
        except OwnerGone:
            pass  # it was killed, or closed the store: the next round takes the store over
        except StoreLocked as error:
            # An owner that does not listen: it is opening or closing the store, or cannot make a socket.
            if time.monotonic() > deadline:
                if not checkpoint:
                    return  # its page tells how far it is
                raise Error(f"{error}; it does not answer requests for a checkpoint") from error
        time.sleep(_PAUSE)


def _take_over(path: Path, options: Options) -> None:
    """Own the store for a moment, to recover it: recovery brings all of the log to the base. How much of the log its
    owners want to keep is not known here, so nothing of it is released."""
    with recovered(path, replace(options, read_only=False, feed_bytes=sys.maxsize)) as opened:
        opened.log.mark()
        page = Page(path, opened.store_id, owner=True)
        page.publish(opened.last_ts)
        page.close()


def tell_of_pins(path: Path) -> None:
    """Have a living owner collect what removed pins held; without one, the next owner does."""
    owner = reach_owner(path)
    if owner is not None:
        with owner:
            try:
                owner.ask("pins_changed", timeout=1.0)
            except Error:
                return
