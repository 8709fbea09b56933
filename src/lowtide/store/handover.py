"""Handing a load job over to the process that owns the store, or, if none does, doing it in this one.

There is never a second writer: the lock of the store decides, as for everybody else. Whoever vanishes meanwhile leaves
a receipt in the store or nothing, so the job is asked for again, of the next owner, until somebody says what came of
it.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final

import msgspec

from lowtide.engine.recovery.opening import MANIFEST
from lowtide.errors import Error, StoreLocked, UsageError
from lowtide.sharing.loading.job import Receipt
from lowtide.sharing.loading.staged import cancel, staging_of
from lowtide.sharing.owner import Owner, OwnerGone, OwnerSilent, reach_owner
from lowtide.store.opening import open_store
from lowtide.store.owned import OwnedStore
from lowtide.store.store import backend_of

TIMEOUT: Final = 600.0
"""Seconds for which an owner is waited for, unless the caller says otherwise."""
_GRACE: Final = 30.0
"""Seconds more, for one who is committing at the end of these."""
_PAUSE: Final = 0.05


class LoadTimeout(Error):
    """The owner of the store did not finish in time. The message says whether the write may still be committed."""


def load(path: Path, name: str, timeout: float = TIMEOUT) -> Receipt:
    """Have a job that is ready applied, and wait for it for ``timeout`` seconds. Raises what the job met, and then
    nothing was changed; LoadTimeout, if there was no answer."""
    deadline = time.monotonic() + timeout
    while True:
        left = max(deadline - time.monotonic(), 0.1)
        owner = reach_owner(path)
        if owner is not None:
            with owner:
                try:
                    return _ask(owner, name, left)
                except OwnerSilent:
                    return _too_late(path, name, timeout, "did not finish")
                except OwnerGone:
                    pass  # the next owner, or this process, finds the receipt, or does it
        else:
            try:
                return _take_over(path, name)
            except StoreLocked as error:
                if time.monotonic() > deadline:
                    return _too_late(path, name, timeout, f"could not be reached ({error.holder})")
        if time.monotonic() > deadline:
            return _too_late(path, name, timeout, "was not there for long enough")
        time.sleep(_PAUSE)


def ensure_store(path: Path) -> None:
    """Make the store, if there is none in ``path``."""
    if not (path / MANIFEST).exists():
        with contextlib.suppress(StoreLocked):  # somebody else is making it
            open_store(path).close()


def _ask(owner: Owner, name: str, seconds: float) -> Receipt:
    try:
        return msgspec.convert(owner.ask("load", timeout=seconds, job=name), Receipt)
    except UsageError as error:
        if "does not know 'load'" in str(error):
            raise UsageError(
                "the process that owns the store runs a Lowtide that cannot take documents from another process; "
                "nothing was changed: run the same version there, or close the store there"
            ) from error
        raise


def _take_over(path: Path, name: str) -> Receipt:
    """Own the store for as long as the job takes."""
    with open_store(path) as store:
        owned = backend_of(store)
        assert isinstance(owned, OwnedStore)
        try:
            return owned.loader.apply(name)
        finally:
            owned.loader.finish()


def _too_late(path: Path, name: str, timeout: float, what: str) -> Receipt:
    """Take the job back, or, if it is being committed, wait a little longer to learn what came of it."""
    if cancel(staging_of(path, name)):
        raise LoadTimeout(
            f"the owner of {path} {what} within {timeout:g} seconds; the write was taken back, nothing was changed. "
            "Try again, or give it more time (commitTimeout)"
        )
    owner = reach_owner(path)
    if owner is not None:
        with owner:
            try:
                return _ask(owner, name, _GRACE)
            except (OwnerSilent, OwnerGone):
                pass
    raise LoadTimeout(
        f"the owner of {path} {what} within {timeout:g} seconds, and was committing the write when time ran out: it is "
        f"committed if the owner comes back, or was killed after its log had it. Read the collection before writing "
        f"again; a write with txnAppId and txnVersion can be repeated without harm"
    )
