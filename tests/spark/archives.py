"""A store whose state is recorded at every commit, and an archive that is compared with these states."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

import lowtide
from lowtide.pipeline.tables.columns import DELETE, KEY, KIND, RAW, VERSION
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES, TableName
from lowtide.values.extended import dumps
from lowtide.values.ids import id_key

State = dict[str, dict[str, Any]]
"""By table, the raw value of each key."""


class Remembered:
    """A store, and what it held after each commit."""

    def __init__(self, store: lowtide.Store) -> None:
        self.store = store
        self.states: dict[int, State] = {}

    def do(self, work: Callable[[lowtide.Store], object]) -> int:
        """Change the store, and remember what it holds; returns the last commit."""
        work(self.store)
        return self.remember()

    def remember(self) -> int:
        last = self.store.stats().last_commit
        self.states[last] = self._state()
        return last

    def _state(self) -> State:
        found: State = {}
        with self.store.snapshot() as snapshot:
            for name in snapshot.list_collection_names():
                documents = {
                    id_key(each["_id"]).hex(): dumps(each).decode() for each in snapshot.collection(name).find()
                }
                found[str(TableName(COLLECTIONS, name))] = documents
            for name in self.store.keyspaces():
                if not name.startswith(("documents/", "index/", "lowtide/")):
                    entries = {key.hex(): value for key, value in snapshot.keyspace(name).scan()}
                    found[str(TableName(KEYSPACES, name))] = entries
        return {name: entries for name, entries in found.items() if entries}


def stir(remembered: Remembered, seed: int, commits: int = 12) -> None:
    """Change the store at random: documents of changing types, a keyspace, transactions over several collections."""
    rng = random.Random(seed)
    values: list[Callable[[], Any]] = [
        lambda: rng.randrange(100),
        lambda: rng.random(),
        lambda: "text",
        lambda: None,
        lambda: [rng.randrange(3)],
        lambda: {"deep": rng.randrange(3), f"f{rng.randrange(3)}": "x"},
        lambda: Decimal("1.50"),
        lambda: datetime(2026, 1, rng.randrange(1, 28), tzinfo=UTC),
        lambda: b"\x00\xff",
    ]

    def change(store: lowtide.Store) -> None:
        with store.transaction() as tx:
            for _ in range(rng.randrange(1, 5)):
                items = tx.collection(rng.choice(["items", "orders"]))
                key = rng.choice([rng.randrange(8), f"k{rng.randrange(8)}"])
                if rng.random() < 0.3:
                    items.delete_one({"_id": key})
                else:
                    field = f"v{rng.randrange(3)}"
                    items.replace_one({"_id": key}, {"_id": key, field: rng.choice(values)()}, upsert=True)
            tx.keyspace("plain").put(bytes([rng.randrange(4)]), bytes([rng.randrange(256)]))

    for _ in range(commits):
        remembered.do(change)


def rows_in(archive: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of every table of an archive, read without Spark."""
    found: dict[str, list[dict[str, Any]]] = {}
    for folder in (COLLECTIONS, KEYSPACES):
        for name in (Location.of(archive) / folder).names():
            table = table_at(Location.of(archive), TableName(folder, name))
            paths = [f"{table.location.root}/{each.name}" for each in table.files]
            read = (pa.parquet.read_table(path, columns=[KEY, VERSION, KIND, RAW]).to_pylist() for path in paths)
            found[str(TableName(folder, name))] = [row for rows in read for row in rows]
    return found


def state_at(rows: dict[str, list[dict[str, Any]]], commit: int) -> State:
    """What the rows say that the store held at a commit; internal tables are left out."""
    found: State = {}
    for name, versions in rows.items():
        if name.startswith("keyspaces/lowtide/"):
            continue
        newest: dict[str, dict[str, Any]] = {}
        for row in sorted(versions, key=lambda row: row[VERSION]):
            if row[VERSION] <= commit:
                newest[row[KEY]] = row
        found[name] = {key: row[RAW] for key, row in newest.items() if row[KIND] != DELETE}
    return {name: entries for name, entries in found.items() if entries}


def check(archive: Path, remembered: Remembered, *, since: int = 0, until: int | None = None) -> None:
    """Compare the archive with the store at every commit that was remembered; no version is there twice."""
    rows = rows_in(archive)
    for name, versions in rows.items():
        places = [(row[KEY], row[VERSION]) for row in versions]
        assert len(places) == len(set(places)), name
    for commit, state in remembered.states.items():
        if since <= commit and (until is None or commit <= until):
            assert state_at(rows, commit) == state, commit


def forget_the_log(store: lowtide.Store) -> None:
    """Have the store release the log that it has."""
    filler = store.keyspace("filler")
    while _first_kept(store) <= 2:
        for number in range(64):
            filler.put(b"x", bytes(1 << 20) + bytes([number]))
        store.checkpoint()
    filler.delete(b"x")


def _first_kept(store: lowtide.Store) -> int:
    try:
        store.changes(since=0)
    except lowtide.ChangesLost as lost:
        return lost.kept
    return 0
