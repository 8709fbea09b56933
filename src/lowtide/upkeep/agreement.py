"""Checks that the log, the base and the chains agree, key by key.

The last version of a key in the log up to the boundary must be the base's. The last one above the boundary must be the
newest version in memory, and every version in memory must be in the log. Values are compared by length and hash, so a
log of any size can be checked.
"""

from __future__ import annotations

from typing import TypeAlias

from lowtide.engine.base.codec import is_tombstone, row_ts, row_value
from lowtide.engine.base.tables import Tables
from lowtide.engine.log.frame import Commit
from lowtide.engine.versions.chain import versions_of
from lowtide.upkeep.check_base import named
from lowtide.upkeep.check_chains import LayerCopy
from lowtide.upkeep.report import REPORT, RESTORE, Examination

Print: TypeAlias = tuple[int, int] | None
"""Length and hash of a value; None for a deletion."""


def print_of(value: bytes | None) -> Print:
    return (len(value), hash(value)) if value is not None else None


class Agreement:
    """Receives the commits of the log, oldest first, and then compares."""

    def __init__(self, boundary: int, upto: int, layers: list[LayerCopy] | None) -> None:
        """``layers`` of None means that there is no memory to compare with."""
        self._boundary = boundary
        self._upto = upto
        self._layers = layers
        self._below: dict[bytes, tuple[int, Print]] = {}
        self._above: dict[bytes, tuple[int, Print]] = {}
        self._unlogged: dict[tuple[bytes, int], Print] = {
            (key, ts): print_of(value)
            for copy in layers or ()
            for key, chain in copy.chains.items()
            for ts, value in versions_of(chain)
        }
        self.before = Examination("log: what commits say was there before", "changes")
        self.base = Examination("base and log agree", "keys")
        self.chains = Examination("memory and log agree", "keys")

    def add(self, commit: Commit) -> None:
        ts = commit.ts
        if ts > self._upto:
            return
        self._check_before(commit)
        newest = self._below if ts <= self._boundary else self._above
        for key, value in commit.writes.items():
            seen = print_of(value)
            newest[key] = ts, seen
            if self._unlogged.get((key, ts), False) == seen:
                del self._unlogged[key, ts]

    def _check_before(self, commit: Commit) -> None:
        """Check what a commit records about earlier values, if the log has them. The change feed relies on it."""
        existed, before = commit.existed, commit.before
        if existed is None:
            return
        where = f"log, commit {commit.ts}"
        if len(existed) != len(commit.writes) or (before is not None and len(before) != len(commit.writes)):
            self.before.problem(f"it has {len(commit.writes)} changes, but records another number", where)
            return
        for index, key in enumerate(commit.writes):
            known = self._above.get(key) or self._below.get(key)
            if known is None:
                continue
            self.before.examined += 1
            ts, seen = known
            if bool(existed[index]) != (seen is not None):
                there = "there" if seen is not None else "not there"
                self.before.problem(f"key {key!r} was {there} since commit {ts}, but it says otherwise", where)
            elif before is not None and print_of(before[index]) != seen:
                self.before.problem(f"the value of key {key!r} before it is not the one of commit {ts}", where)

    def compare_base(self, tables: Tables, names: dict[bytes, str], reaches: int) -> None:
        """Check that the newest version of a key in the log up to the boundary is the base's.

        A log that ends below the boundary has no information about later commits.
        """
        for key, (ts, seen) in self._below.items():
            self.base.examined += 1
            row = tables.txn.get(key, db=tables.rows)
            deleted = row is None or is_tombstone(row)
            where = named(names, key)
            if seen is None and deleted and (row is None or row_ts(row) == ts):
                continue
            if reaches < self._boundary and (row is None or row_ts(row) > reaches):
                continue
            if row is None:
                self.base.problem(f"commit {ts} wrote it, but the base does not have it", where, RESTORE)
            elif row_ts(row) != ts:
                self.base.problem(f"commit {ts} changed it last, but the base has commit {row_ts(row)}", where, RESTORE)
            elif deleted != (seen is None) or (seen is not None and print_of(row_value(row)) != seen):
                self.base.problem(f"the base has another value than commit {ts} wrote", where, RESTORE)

    def compare_chains(self, names: dict[bytes, str]) -> None:
        """Check that the newest version in memory is the newest in the log, and that none is only in memory."""
        if self._layers is None:
            return
        for key, (ts, seen) in self._above.items():
            self.chains.examined += 1
            chain = next((copy.chains[key] for copy in self._layers if key in copy.chains), None)
            where = named(names, key)
            if chain is None:
                self.chains.problem(f"commit {ts} wrote it, but it is not in memory", where, REPORT)
            elif chain[0] != ts:
                self.chains.problem(f"commit {ts} changed it last, but memory has commit {chain[0]}", where, REPORT)
            elif print_of(chain[1]) != seen:
                self.chains.problem(f"memory has another value than commit {ts} wrote", where, REPORT)
        for key, ts in self._unlogged:
            self.chains.problem(
                f"its version of commit {ts} is in memory, but the log differs",
                named(names, key),
                REPORT,
            )
