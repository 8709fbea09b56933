"""Converts changes of statements to record batches: inserts and deletes, with their terms.

Only the index ``spoc`` is followed, since all indexes change together. Adding a statement that already exists is no
change. Adding an inferred statement explicitly is a delete and an insert, if the log has the values before the commit
(``before_images``); otherwise it is not reported.

The log has ids. Their terms are looked up in the current state of the store when the changes are read. A term that was
collected meanwhile is searched for in the log: in the commit that added it, or in the one that removed it, if that has
the values before the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lowtide.engine import EngineSnapshot
from lowtide.errors import Error
from lowtide.feed.ranges import DELETE, INSERT, POSTIMAGE, PREIMAGE, ChangeRows, commits_in
from lowtide.quads.indexes import check_quads_name
from lowtide.sharing.follower import Follower
from lowtide.spark.change_columns import KIND, MOMENT, VERSION, change_arrays, check_change_types
from lowtide.spark.options import PATTERN, SparkOptions
from lowtide.spark.quads_snapshot import FOREIGN
from lowtide.spark.statements import StatementBatches, keyspace_of
from lowtide.store.opening import follower_of, open_store

_OTHERS: Final = (KIND, VERSION, MOMENT)


class StatementChanges:
    """Builds record batches of the changes of a quad store."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        options.refuse((*FOREIGN, *PATTERN), "for changes of quads")
        check_change_types(schema)
        self._options = options
        self._name = check_quads_name(options.quads)
        self._columns = StatementBatches(schema, _OTHERS)

    def batch(self, rows: ChangeRows, at: EngineSnapshot | None = None) -> pa.RecordBatch:
        """Return the record batch of these rows. Terms are read from the snapshot or from the current state of the
        store."""
        rows = told(rows)
        schema = self._columns.schema
        if not schema.names:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(rows), [None]))
        if at is not None:
            arrays = self._columns.arrays(rows.keys, rows.values, lambda ids: _looked_up(at, self._name, ids))
        else:
            with open_store(self._options.path, read_only=True) as store:
                follower = follower_of(store)
                arrays = self._columns.arrays(rows.keys, rows.values, lambda ids: rows_of(follower, self._name, ids))
        arrays |= change_arrays(rows, schema)
        return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def told(rows: ChangeRows) -> ChangeRows:
    """Return the rows as inserts and deletes of statements, without those that change nothing."""
    found = ChangeRows()
    for kind, commit, time, key, value in _with_kinds(rows):
        found.kinds.append(kind)
        found.commits.append(commit)
        found.times.append(time)
        found.keys.append(key)
        found.values.append(value)
    return found


def _with_kinds(rows: ChangeRows) -> Iterator[tuple[str, int, float, bytes, bytes | None]]:
    before: bytes | None = None
    for kind, commit, time, key, value in zip(
        rows.kinds, rows.commits, rows.times, rows.keys, rows.values, strict=True
    ):
        if kind == PREIMAGE:
            before = value
        elif kind == POSTIMAGE:
            if before is not None and before != value:
                yield DELETE, commit, time, key, before
                yield INSERT, commit, time, key, value
            before = None
        else:
            yield kind, commit, time, key, value


def _looked_up(snapshot: EngineSnapshot, name: str, ids: list[bytes]) -> list[bytes | None]:
    prefix = snapshot.keyspace(keyspace_of(name, "terms")).prefix
    return snapshot.peek([prefix + id for id in ids])


def rows_of(follower: Follower, name: str, ids: list[bytes]) -> list[bytes | None]:
    """Return the rows of the terms of statements in the log, including terms that were collected since."""
    found = rows_there(follower, name, ids)
    for id, row in zip(ids, found, strict=True):
        if row is None:
            raise Error(
                f"a changed statement of quads {name!r} has a term, with the id {id.hex()}, that was removed by "
                "collect_garbage() since, and the log does not have it. Read changes before terms are collected, or "
                "open the store with before_images=True. To go on, start with a snapshot"
            )
    return found


def rows_there(follower: Follower, name: str, ids: list[bytes]) -> list[bytes | None]:
    """Return the rows of those terms that the store or its log has."""
    with EngineSnapshot(follower.engine, None) as snapshot:
        found = dict(zip(ids, _looked_up(snapshot, name, ids), strict=True))
    missing = [id for id, row in found.items() if row is None]
    if missing:
        found.update(_logged(follower, name, missing))
    return [found[id] for id in ids]


def _logged(follower: Follower, name: str, ids: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the rows of terms that the log has, but the store no longer has."""
    feed = follower.feed
    last = feed.published()
    prefix = feed.prefix_of(keyspace_of(name, "terms"), last) or b""
    wanted = {prefix + id for id in ids}
    found: dict[bytes, bytes] = {}
    for commit in commits_in(feed.commits(feed.first_kept() - 1, last)):
        if wanted.isdisjoint(commit.writes):
            continue
        before = commit.before or [None] * len(commit.writes)
        for (full_key, value), old in zip(commit.writes.items(), before, strict=True):
            row = old if value is None else value
            if full_key in wanted and row is not None:
                found[full_key[len(prefix) :]] = row
    return found
