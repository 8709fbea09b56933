"""Handing a load job over to the process that owns the store, or applying it here if no process does.

There is never a second writer: the lock of the store decides which process applies the job. A process that dies on the
way leaves either a receipt in the store or nothing, so the job is handed to the next owner until one reports a result.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from lowtide.engine.recovery.opening import MANIFEST
from lowtide.errors import Error, StoreLocked, UsageError
from lowtide.sharing.loading.job import Receipt
from lowtide.sharing.loading.staged import cancel, staging_of
from lowtide.sharing.owner import Owner, OwnerGone, OwnerSilent, reach_owner
from lowtide.sharing.takeover import ask_or_take_over
from lowtide.store.opening import open_store
from lowtide.store.owned import OwnedStore
from lowtide.store.store import backend_of
from lowtide.system.clock import SYSTEM_CLOCK

TIMEOUT: Final = 600.0
"""Seconds to wait for an owner, by default."""
_GRACE: Final = 30.0
"""Extra seconds for an owner that is committing when the time is up."""


class LoadTimeout(Error):
    """The owner of the store did not finish in time. The message says whether the write may still be committed."""


def load(path: Path, name: str, timeout: float = TIMEOUT) -> Receipt:
    """Have the owner apply a staged job, or apply it here, within ``timeout`` seconds.

    Raises the job's own error, in which case nothing was changed, or LoadTimeout if there was no answer.
    """
    deadline = SYSTEM_CLOCK.monotonic() + timeout

    def ask(owner: Owner) -> Receipt:
        try:
            return _ask(owner, name, max(deadline - SYSTEM_CLOCK.monotonic(), 0.1))
        except OwnerSilent:
            return _too_late(path, name, timeout, "did not finish")

    def timed_out(failure: OwnerGone | StoreLocked) -> Receipt:
        if isinstance(failure, StoreLocked):
            return _too_late(path, name, timeout, f"could not be reached ({failure.holder})")
        return _too_late(path, name, timeout, "was not there for long enough")

    # A job leaves a receipt in the store or nothing, so it can be requested again.
    return ask_or_take_over(path, ask, lambda: _take_over(path, name), deadline=lambda: deadline, timed_out=timed_out)


def ensure_store(path: Path) -> None:
    """Create the store if there is none in ``path``."""
    if not (path / MANIFEST).exists():
        with contextlib.suppress(StoreLocked):  # another process is creating it
            open_store(path).close()


def _ask(owner: Owner, name: str, seconds: float) -> Receipt:
    try:
        return msgspec.convert(owner.ask("load", timeout=seconds, job=name), Receipt)
    except UsageError as error:
        if "does not know 'load'" in str(error):
            raise UsageError(
                "the process that owns the store runs a version of Lowtide that cannot take documents from other "
                "processes; nothing was changed: run the same version there, or close the store there"
            ) from error
        raise


def _take_over(path: Path, name: str) -> Receipt:
    """Open the store here, apply the job, and close it. If another process has come first, it is asked instead."""
    with open_store(path) as store:
        owned = backend_of(store)
        if not isinstance(owned, OwnedStore):
            raise OwnerGone(f"another process has opened {path} meanwhile")
        try:
            return owned.loader.apply(name)
        finally:
            owned.loader.finish()


def _too_late(path: Path, name: str, timeout: float, what: str) -> Receipt:
    """Withdraw the job; if it is already being committed, wait a little longer for its result."""
    if cancel(staging_of(path, name)):
        raise LoadTimeout(
            f"the owner of {path} {what} within {timeout:g} seconds; the write was withdrawn, nothing was changed. "
            "Retry, or allow more time (commitTimeout)"
        )
    owner = reach_owner(path)
    if owner is not None:
        with owner:
            try:
                return _ask(owner, name, _GRACE)
            except (OwnerSilent, OwnerGone):
                pass
    raise LoadTimeout(
        f"the owner of {path} {what} within {timeout:g} seconds, and was committing the write when the time was up: it "
        f"may have been committed, or still be. Read the collection before you write again; a write with txnAppId and "
        f"txnVersion can be repeated safely"
    )
