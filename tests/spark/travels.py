"""An archive that Spark and DuckDB query, compared with what the store itself saw at every commit."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

import lowtide
import lowtide.spark
from lowtide import pipeline
from lowtide.pipeline import local
from lowtide.pipeline.tables.columns import DELETE, KEY, KIND, VALID_TO, VERSION
from lowtide.pipeline.tables.files import CLOSED, OPEN, FileWriter, VersionFile
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import tables_in
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES
from lowtide.pipeline.tables.table import VersionTable
from lowtide.values.ids import id_key
from tests.spark.archives import Remembered
from tests.support.attack import FULL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]
_READ_BY_BOTH = ("collections/items", "keyspaces/plain")


def write_at_random(remembered: Remembered, seed: int, commits: int) -> None:
    """Change documents of several collections, whose fields change their types, and a keyspace."""
    rng = random.Random(seed)
    values: list[Callable[[], Any]] = [
        lambda: rng.randrange(100),
        lambda: rng.random(),
        lambda: rng.choice(["text", None, True]),
        lambda: {"deep": rng.randrange(3), f"f{rng.randrange(3)}": ["x"]},
        lambda: Decimal("1.50"),
        lambda: datetime(2026, 1, rng.randrange(1, 28), tzinfo=UTC),
    ]

    def change(store: lowtide.Store) -> None:
        with store.transaction() as tx:
            for _ in range(rng.randrange(1, 5)):
                items = tx.collection(rng.choice(["items", "orders"]))
                key = rng.randrange(12)
                if rng.random() < 0.3:
                    items.delete_one({"_id": key})
                else:
                    document = {"_id": key, "number": rng.randrange(9), f"v{rng.randrange(4)}": rng.choice(values)()}
                    items.replace_one({"_id": key}, document, upsert=True)
            if rng.random() < 0.5:
                tx.keyspace("plain").put(bytes([rng.randrange(4)]), bytes([rng.randrange(256)]))

    for _ in range(commits):
        remembered.do(change)


def settle(table: VersionTable, rows_per_file: int) -> None:
    """Sort all versions of a table into open and closed files, of a few rows each."""
    read = [pa.parquet.read_table(f"{table.location.root}/{each.name}") for each in table.files]
    rows = pa.concat_tables(read, promote_options="permissive").sort_by([(KEY, "ascending"), (VERSION, "ascending")])
    keys, versions, kinds = (rows.column(name).to_pylist() for name in (KEY, VERSION, KIND))
    following = [*zip(keys[1:], versions[1:], strict=True), (None, None)]
    ends = [
        version if kind == DELETE else after[1] if after[0] == key else None
        for key, version, kind, after in zip(keys, versions, kinds, following, strict=True)
    ]
    rows = rows.set_column(rows.schema.get_field_index(VALID_TO), VALID_TO, pa.array(ends, pa.int64()))
    ended = rows.column(VALID_TO).is_valid()
    written: list[VersionFile] = []
    for kind, part in ((OPEN, rows.filter(pc.invert(ended))), (CLOSED, rows.filter(ended))):
        for start in range(0, part.num_rows, rows_per_file):
            writer = FileWriter(table.location, kind, part.schema)
            writer.write(part.slice(start, rows_per_file))
            written.append(writer.finish())
    table.replace(table.files, written, new=False, compacted=table.archived)


def settle_all(archive: Path, rows_per_file: int = 5) -> None:
    for table in tables_in(Location.of(archive)).values():
        settle(table, rows_per_file)


def what(table: str) -> dict[str, Any]:
    """The arguments that name a table."""
    folder, _, name = table.partition("/")
    return {"collection": name} if folder == COLLECTIONS else {"keyspace": name}


def by_key(rows: Rows, table: str) -> dict[str, Any]:
    """What is under each key; no key is there twice."""
    is_keyspace = table.startswith(KEYSPACES)
    found = {(bytes(each["_id"]) if is_keyspace else id_key(each["_id"])).hex(): each["_raw"] for each in rows}
    assert len(found) == len(rows)
    return {key: bytes(raw) if is_keyspace else raw for key, raw in found.items()}


def rows_of(frame: DataFrame) -> Rows:
    found: Rows = frame.toArrow().to_pylist()
    return found


def table_names(archive: Path) -> list[str]:
    return [str(name) for name in tables_in(Location.of(archive)) if not name.name.startswith("lowtide/")]


def _spark_for(table: str, spark: SparkSession | None) -> SparkSession | None:
    """The session, if there is one, for the tables that Spark reads too: in every run a collection and a keyspace. The
    others differ from these in what their files have, which DuckDB shows."""
    return spark if FULL or table in _READ_BY_BOTH else None


def check_states(spark: SparkSession | None, archive: Path, remembered: Remembered, every: int = 1) -> None:
    """Compare every commit, or every few, through DuckDB, and some through Spark too, if it is given."""
    commits = sorted(remembered.states)[::-every]
    chosen = [commits[0], *random.Random(1).sample(commits[1:], 2)]
    for table in table_names(archive):
        for commit in commits:
            expected = remembered.states[commit].get(table, {})
            assert by_key(local.as_of(archive, commit, **what(table), raw=True).to_pylist(), table) == expected, commit
        session = _spark_for(table, spark)
        if session is None:
            continue
        frames = [pipeline.as_of(session, archive, each, **what(table), raw=True) for each in chosen]
        marked = [frame.selectExpr(f"{each} AS at", "_id", "_raw") for frame, each in zip(frames, chosen, strict=True)]
        rows = rows_of(functools.reduce(lambda first, second: first.unionByName(second), marked))
        for commit in chosen:
            seen = by_key([row for row in rows if row["at"] == commit], table)
            assert seen == remembered.states[commit].get(table, {}), commit


def check_history(spark: SparkSession, archive: Path, remembered: Remembered) -> None:
    """Each version is seen from its commit until its end, and by no other commit."""
    for table in table_names(archive):
        rows = local.history(archive, **what(table)).to_pylist()
        session = _spark_for(table, spark)
        assert session is None or rows_of(pipeline.history(session, archive, **what(table))) == rows
        assert rows == sorted(rows, key=lambda row: (_key(row, table), row["_version"]))
        for commit, state in remembered.states.items():
            seen = [
                row
                for row in rows
                if row["_version"] <= commit < (row["valid_to"] or commit + 1) and row["_kind"] != DELETE
            ]
            assert by_key(seen, table) == state.get(table, {})


def _key(row: dict[str, Any], table: str) -> bytes:
    return bytes(row["_id"]) if table.startswith(KEYSPACES) else id_key(row["_id"])


def check_differences(spark: SparkSession | None, archive: Path, remembered: Remembered) -> None:
    """Compare some pairs of commits through DuckDB, and one of them through Spark too, if it is given."""
    rng = random.Random(2)
    commits = sorted(remembered.states)
    chosen = [tuple(rng.sample(commits, 2)) for _ in range(6 if FULL else 3)]
    for table in table_names(archive):
        session = _spark_for(table, spark)
        for number, (first, second) in enumerate(chosen):
            before, after = (remembered.states[each].get(table, {}) for each in (first, second))
            expected = sorted(
                (key, _kind_of(before.get(key), after.get(key)), before.get(key), after.get(key))
                for key in {*before, *after}
                if before.get(key) != after.get(key)
            )
            found = [local.diff(archive, first, second, **what(table)).to_pylist()]
            if session is not None and number == 0:
                found.append(rows_of(pipeline.diff(session, archive, first, second, **what(table))))
            for rows in found:
                assert [*rows[0]] == ["_id", "_kind", "before", "after"] if rows else True
                seen = [(_key(row, table).hex(), row["_kind"], row["before"], row["after"]) for row in rows]
                assert sorted(seen) == expected, (first, second)


def _kind_of(before: object, after: object) -> str:
    return "insert" if before is None else "delete" if after is None else "update"
