"""How a command reaches a store: through the process that owns it or, if there is none, by opening it.

A store is never created here, and a backup never opened: opening would turn it into a store of its own. When the store
is opened here, its log is never released: how much stays for the change feed is an option of its usual owner, which
this process does not know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import lowtide
from lowtide.engine import BACKUP, LOCK, MANIFEST, holder_of
from lowtide.errors import Error, StoreLocked, UsageError
from lowtide.options import OpenOptions
from lowtide.sharing.owner import Owner, OwnerGone, OwnerSilent, reach_owner
from lowtide.sharing.takeover import ask_or_take_over
from lowtide.store.opening import open_within
from lowtide.system.clock import SYSTEM_CLOCK

PATIENCE = 5.0
"""Seconds within which a live owner answers."""

_PAUSE = 0.02
_EVERYTHING = 1 << 60
_NEVER = 1e9

_KEEP_THE_LOG: OpenOptions = {
    "feed_bytes": _EVERYTHING,
    "consumer_bytes": _EVERYTHING,
    "consumer_age": float(_EVERYTHING),
    "snapshot_warn_age": _NEVER,  # the user knows that the command is running
    "snapshot_critical_age": _NEVER,
}
_READ_ONLY: OpenOptions = {**_KEEP_THE_LOG, "read_only": True}


@dataclass
class Settings:
    """The settings of the whole command; set before it runs."""

    patience: float = PATIENCE


settings = Settings()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The answer, and the process that gave it; None if it was this one."""

    value: Any
    owner: int | None


def find_store(path: Path, *, backups: bool = False) -> Path:
    """The absolute path of the store in ``path``, or of a backup if ``backups`` is set."""
    directory = path.absolute()
    if not directory.exists():
        raise UsageError(f"{directory} does not exist")
    if not directory.is_dir():
        raise UsageError(f"{directory} is a file; a store is a directory")
    if not (directory / MANIFEST).exists():
        unfinished = ", only a backup that was never finished" if (directory / BACKUP).exists() else ""
        raise UsageError(f"there is no Lowtide store in {directory}{unfinished}")
    if not backups and (directory / BACKUP).exists():
        raise UsageError(
            f"{directory} is a backup, and opening it would turn it into a store of its own; verify, inspect base and "
            "inspect segment leave it unchanged, and lowtide.open(path) in Python restores it"
        )
    return directory


@contextlib.contextmanager
def connected(path: Path) -> Iterator[tuple[Owner, int] | None]:
    """A connection to the owner of the store and its process id, once it has answered; None if no process listens."""
    deadline = SYSTEM_CLOCK.monotonic() + settings.patience
    while True:
        owner = reach_owner(path)
        if owner is None:
            yield None
            return
        with owner:
            try:
                process = _greet(path, owner)
            except OwnerGone:
                if SYSTEM_CLOCK.monotonic() > deadline:
                    raise
            else:
                yield owner, process
                return
        SYSTEM_CLOCK.sleep(_PAUSE)


def _greet(path: Path, owner: Owner) -> int:
    """The process id of an owner that answers; raises OwnerSilent if it does not."""
    try:
        return int(owner.ask("hello", timeout=settings.patience))
    except OwnerSilent as error:
        raise OwnerSilent(
            f"{path} is owned by {holder_of(path / LOCK)}, which does not answer: it is stopped or hangs. Resume or "
            "end it, or wait longer with --timeout"
        ) from error


def ask(path: Path, operation: str, here: Callable[[], Any], **arguments: Any) -> CommandResult:
    """Have the owner of the store run an operation that can be repeated; without an owner, run it ``here``. If the
    owner goes away meanwhile, or is just opening the store, wait for it for ``settings.patience`` seconds."""

    def by_owner(owner: Owner) -> CommandResult:
        process = _greet(path, owner)
        return CommandResult(owner.ask(operation, **arguments), process)

    def timed_out(failure: OwnerGone | StoreLocked) -> CommandResult:
        if isinstance(failure, OwnerGone):
            raise failure
        raise Error(f"{failure}, or run this command as the same user; the owner does not answer other processes")

    return ask_or_take_over(
        path,
        by_owner,
        lambda: CommandResult(here(), None),
        deadline=lambda: SYSTEM_CLOCK.monotonic() + settings.patience,
        timed_out=timed_out,
    )


@contextlib.contextmanager
def reading(path: Path) -> Iterator[lowtide.Store]:
    """The store, opened read-only, with or without an owner."""
    with connected(path):
        pass  # an owner that does not answer is reported now, instead of after half a minute
    with lowtide.open(path, **_READ_ONLY) as store:
        yield store


@contextlib.contextmanager
def writing(path: Path, **options: Unpack[OpenOptions]) -> Iterator[lowtide.Store]:
    """The store, open to write: joined to its owner, or owned, with more ``options``, if it has none."""
    with connected(path):
        pass  # an owner that does not answer is reported now; a commit would wait for it
    chosen: OpenOptions = {**_KEEP_THE_LOG, **options}
    with open_within(path, settings.patience, **chosen) as store:
        yield store
