"""Whether a base is sound: its pages are examined (see structure) before LMDB reads them.

The process that will write to a base examines all of it, if it is not large. A process that only reads it examines the
pages that opening reads, so that the undamaged parts of a damaged store can still be read and saved.

A false alarm would do more harm than the damage, because the store then refuses all commits. So a finding counts only
if a second examination, in a fresh LMDB transaction, finds the same on the same page.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import lmdb

from lowtide.engine.base.pages import Unreadable
from lowtide.engine.base.structure import Examiner, Fault, Structure
from lowtide.errors import CorruptionError
from lowtide.system.clock import Clock, SystemClock

WHAT_TO_DO = (
    "the file is damaged: keep the store's files as they are, list all damage with `lowtide verify`, restore a backup"
)

logger = logging.getLogger("lowtide")

_ATTEMPTS = 100
_MOST_WALKS = 10
_PAUSE = 0.001
_NEEDED_TO_OPEN = ("meta", "keyspaces", "pins", "consumers")
_FEW_PAGES = 256

MOST_PAGES = 256
"""Files of up to this many pages are examined completely when the process that will write to them opens them: at most
15 ms."""

MOST_IN_BACKGROUND = 25_000
"""Files of up to this many pages (100 MB) are examined before the background first writes to them: a second or two,
half of it asleep."""

DAMAGED = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.PageFullError,
    lmdb.CursorFullError,
)
"""The errors that py-lmdb raises on a damaged file."""


class Soundness:
    """The known damage to one open base. ``damage`` is the first that was found; any thread sets it, once.
    ``on_damage``, which the owner of the store sets, is called with it."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()
        self.damage: CorruptionError | None = None
        self.on_damage: Callable[[CorruptionError], object] = bool
        self._examined = False

    def note(self, error: CorruptionError) -> None:
        """Remember that a page is damaged."""
        if self.damage is None:
            self.damage = error
            self.on_damage(error)

    def met(self, error: lmdb.Error) -> CorruptionError:
        """The error to raise instead of an LMDB error about a damaged page."""
        found = CorruptionError(self._directory / "data.mdb", f"LMDB cannot read a page: {error}; {WHAT_TO_DO}")
        self.note(found)
        return found

    def examine_once(self, env: lmdb.Environment) -> None:
        """Look for damage and record it, before the background first writes. It works in small steps and sleeps in
        between. The caller holds ``steady``."""
        if not self._examined:
            try:
                check_environment(
                    env, self._directory, most=MOST_IN_BACKGROUND, pause=lambda: self._clock.sleep(_PAUSE)
                )
            except CorruptionError as error:
                self.note(error)
            self._examined = True

    def check(self, env: lmdb.Environment) -> None:
        """Raise CorruptionError if any page is damaged. The caller holds ``steady``."""
        try:
            check_environment(env, self._directory, most=None)
        except CorruptionError as error:
            self.note(error)
            raise


def check_owned(env: lmdb.Environment, directory: Path) -> None:
    """Raise CorruptionError if a page that the owner of the store may read is damaged; see the module."""
    check_environment(env, directory, most=MOST_PAGES)


def check_environment(
    env: lmdb.Environment, directory: Path, *, most: int | None, pause: Callable[[], object] = bool
) -> None:
    """Raise CorruptionError if a page is damaged: any page, if the file has no more than ``most`` (None: no limit);
    otherwise one that opening the base reads. Only a fault that two examinations in a row find is damage."""
    data = directory / "data.mdb"
    before: list[Fault] = []
    for _ in range(_MOST_WALKS):
        faults = _walk(env, data, most, pause)
        if not faults:
            return
        for fault in faults:
            if fault in before:
                raise CorruptionError(data, f"{fault}; {WHAT_TO_DO}")
        before = faults
    logger.warning("%s: %d examinations found different faults, so all of them are ignored", data, _MOST_WALKS)


def _walk(env: lmdb.Environment, data: Path, most: int | None, pause: Callable[[], object]) -> list[Fault]:
    """Examine the file once, in an LMDB transaction of its own."""
    attempts = _ATTEMPTS
    while True:
        attempts -= 1
        with env.begin() as txn:
            try:
                with Examiner(data, txn.id(), pause) as examiner:
                    return _examine(examiner, most).faults
            except Unreadable as error:  # two commits came in between: the transaction's meta page was overwritten
                if not attempts:
                    raise CorruptionError(data, f"its meta pages cannot be read: {error}") from error


def _examine(examiner: Examiner, most: int | None) -> Structure:
    if most is None or examiner.last_page < most:
        return examiner.examine()
    return examiner.examine_few(_NEEDED_TO_OPEN, _FEW_PAGES)
