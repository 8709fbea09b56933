"""An archive of random version chains, made without a store, and what each of its commits must see."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from lowtide.columnar.inference import Fields
from lowtide.pipeline.tables.columns import DELETE, INSERT, KEY, KIND, RAW, UPDATE, VALID_TO, VERSION
from lowtide.pipeline.tables.files import TAIL
from lowtide.pipeline.tables.ledger import BEGIN, FORMAT, RUN, ArchiveLedger
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at
from lowtide.pipeline.tables.names import COLLECTIONS, TableName
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.tables.visible import visible
from lowtide.pipeline.tables.writer import VersionRows, VersionWriter, raw_text
from lowtide.values.codec import encode_document
from lowtide.values.ids import id_key
from tests.support.attack import FULL, some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
HOUR = 3600.0


class Chains:
    """One collection, ``items``. Commit n is made n hours after the start of 2026. ``states`` has what each commit
    sees, by key."""

    def __init__(self, path: Path, *, seed: int = 0, keys: int = 12) -> None:
        self.path = path
        self.table = table_at(Location.of(path), TableName(COLLECTIONS, "items"))
        self._rng = random.Random(seed)
        self._keys = keys
        self.states: list[dict[str, str]] = [{}]
        detail = {"store": "00", "consumer": "archive", "tables": None, "format": FORMAT}
        self.ledger.add(BEGIN, detail=detail)

    @property
    def ledger(self) -> ArchiveLedger:
        return ArchiveLedger(Location.of(self.path))

    @property
    def last(self) -> int:
        return len(self.states) - 1

    def at(self, commit: float) -> datetime:
        """When a commit was made."""
        return datetime.fromtimestamp(START + commit * HOUR, UTC)

    def run(self, commits: int = 10, *, entry: bool = True) -> None:
        """Make commits, and append their versions as a run does; without ``entry`` the run is killed before it has one
        in the ledger."""
        since, rows = self.last, VersionRows()
        for _ in range(commits):
            self._commit(rows)
        self.append(rows)
        if entry:
            self.ledger.add(
                RUN, application=("lowtide-run", self.last), since=since, until=self.last, time=self.at(self.last)
            )

    def _commit(self, rows: VersionRows) -> None:
        state, version = dict(self.states[-1]), self.last + 1
        for number in self._rng.sample(range(self._keys), self._rng.randrange(1, 4)):
            name = f"k{number}"
            key = id_key(name)
            if key.hex() in state and self._rng.random() < 0.4:
                del state[key.hex()]
                rows.add(DELETE, version, START + version * HOUR, key, None)
                continue
            stored = encode_document({"_id": name, "n": version, "tags": ["a", {"b": version}]})
            kind = UPDATE if key.hex() in state else INSERT
            state[key.hex()] = raw_text(stored)
            rows.add(kind, version, START + version * HOUR, key, stored)
        self.states.append(state)

    def append(self, rows: VersionRows) -> None:
        fields = self.table.fields or Fields()
        writer = VersionWriter(self.table.location, fields)
        writer.write(rows)
        files = writer.finish()
        if not self.table.exists:
            self.table.create(fields)
        assert self.table.append(files, self.last)

    def now(self) -> VersionTable:
        """The table as it is now."""
        return table_at(Location.of(self.path), TableName(COLLECTIONS, "items"))

    def seen(
        self, spark: SparkSession, commits: Iterable[int], table: VersionTable | None = None
    ) -> dict[int, dict[str, str]]:
        """What the table says that these commits see, by key; no key is there twice."""
        chosen = table if table is not None else self.now()
        frames = [visible(spark, chosen, each).select(F.lit(each), KEY, RAW) for each in commits]
        states: dict[int, dict[str, str]] = {each: {} for each in commits}
        for commit, key, raw in reduce(lambda one, other: one.unionAll(other), frames).collect():
            assert key not in states[commit], (commit, key)
            states[commit][key] = raw
        return states

    def check(self, spark: SparkSession, commits: Iterable[int] | None = None) -> None:
        """Compare what each of these commits, or all, sees with what it must see. What is in the files is looked at for
        all of them; Spark reads the first, the last and one between, and in the full attack all."""
        chosen = list(range(1, self.last + 1) if commits is None else commits)
        expected = {each: self.states[each] for each in chosen}
        assert self._in_files(chosen) == expected
        read = chosen if FULL else sorted({chosen[0], *some(chosen, 1), chosen[-1]})
        assert self.seen(spark, read) == {each: expected[each] for each in read}

    def _in_files(self, commits: Iterable[int]) -> dict[int, dict[str, str]]:
        """What the rows in the table's files say that these commits see, by key; no key is there twice."""
        table = self.now()
        settled: list[dict[str, Any]] = []
        added: list[dict[str, Any]] = []
        for each in table.files:
            found = pq.read_table(f"{table.location.root}/{each.name}", columns=[KEY, VERSION, KIND, VALID_TO, RAW])
            (added if each.kind == TAIL else settled).extend(found.to_pylist())
        added.sort(key=lambda row: row[VERSION])
        return {at: _seen_at(at, settled, {row[KEY]: row for row in added if row[VERSION] <= at}) for at in commits}

    def files(self) -> list[str]:
        """The files of the table, by kind."""
        self.table.reload()
        return sorted(each.kind for each in self.table.files)


def _seen_at(at: int, settled: list[dict[str, Any]], newest: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What a commit sees of settled rows, and of the newest ones that were added since."""
    rows = [
        row
        for row in settled
        if row[KEY] not in newest and row[VERSION] <= at and (row[VALID_TO] is None or row[VALID_TO] > at)
    ]
    rows += newest.values()
    state = {row[KEY]: row[RAW] for row in rows if row[KIND] != DELETE}
    assert len(state) == sum(row[KIND] != DELETE for row in rows), f"commit {at} sees a key twice"
    return state
