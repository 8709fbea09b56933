"""Handing a load job over to the process that owns the store: this one joins the store for as long as that takes, or
owns it if no process does.

There is never a second writer. An owner that dies on the way leaves either a receipt in the store or nothing, so the
job is handed to the next owner, which may be this process, until one reports a result.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from lowtide.engine.recovery.opening import MANIFEST
from lowtide.errors import Error, StoreLocked, UsageError
from lowtide.sharing.joined import Joined
from lowtide.sharing.loading.job import Receipt
from lowtide.sharing.loading.staged import cancel, staging_of
from lowtide.sharing.owner import OwnerSilent
from lowtide.store.opening import open_store, open_within
from lowtide.store.owned import OwnedStore
from lowtide.store.store import Store, backend_of
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
    begun = SYSTEM_CLOCK.monotonic()
    try:
        store = open_within(path, timeout)
    except StoreLocked as error:
        raise _too_late(path, name, f"could not be reached ({error.holder}) within {timeout:g} seconds") from error
    with store:
        what = f"did not finish within {timeout:g} seconds"
        try:
            return _apply(store, name, max(timeout - (SYSTEM_CLOCK.monotonic() - begun), 0.1))
        except OwnerSilent:
            late = _too_late(path, name, what)
        if isinstance(late, _Withdrawn):
            raise late
        with contextlib.suppress(OwnerSilent):  # it is being committed: wait a little longer for its result
            return _apply(store, name, _GRACE)
        raise late


def ensure_store(path: Path) -> None:
    """Create the store if there is none in ``path``."""
    if not (path / MANIFEST).exists():
        with contextlib.suppress(StoreLocked):  # another process is creating it
            open_store(path).close()


def _apply(store: Store, name: str, seconds: float) -> Receipt:
    """The receipt of a job, which is applied by the owner of a store: a job that was applied before has one already, so
    it can be requested again."""
    backend = backend_of(store)
    try:
        if isinstance(backend, Joined):
            return msgspec.convert(backend.ask("load", timeout=seconds, job=name), Receipt)
        assert isinstance(backend, OwnedStore)
        return backend.loader.apply(name)
    except UsageError as error:
        if "does not know 'load'" in str(error):
            raise UsageError(
                "the process that owns the store runs a version of Lowtide that cannot take documents from other "
                "processes; nothing was changed: run the same version there, or close the store there"
            ) from error
        raise
    finally:
        backend = backend_of(store)  # this process may have become the owner
        if isinstance(backend, OwnedStore):
            backend.loader.finish()


class _Withdrawn(LoadTimeout):
    """Nothing was changed, and nothing will be."""


def _too_late(path: Path, name: str, what: str) -> LoadTimeout:
    """Withdraw a job, unless it is already being committed."""
    if cancel(staging_of(path, name)):
        return _Withdrawn(
            f"the owner of {path} {what}; the write was withdrawn, nothing was changed. Retry, or allow more time "
            "(commitTimeout)"
        )
    return LoadTimeout(
        f"the owner of {path} {what}, and was committing the write when the time was up: it may have been committed, "
        "or still be. Read the collection before you write again; a write with txnAppId and txnVersion can be "
        "repeated safely"
    )
