"""What a run does with a range of commits, decided by what they wrote to the catalog."""

from __future__ import annotations

from lowtide.documents.catalog import CATALOG, CatalogRow, Former
from lowtide.feed.differences import Swap
from lowtide.pipeline.archive.plan import CatalogChange, LogSpan, Relocation, Routes, relocation_of, steps_of
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES, TableName


def change(ts: int, **rows: CatalogRow) -> CatalogChange:
    return CatalogChange(ts, float(ts), rows)


def row(keyspace: str, **values: object) -> CatalogRow:
    return CatalogRow(keyspace=keyspace).having(**values)


def test_a_collection_has_its_own_keyspace_unless_a_row_says_otherwise() -> None:
    routes = Routes({"new": "documents/old", "old": "documents/old~1"})
    assert routes.table_of("documents/old") == TableName(COLLECTIONS, "new")
    assert routes.table_of("documents/old~1") == TableName(COLLECTIONS, "old")
    assert routes.table_of("documents/third") == TableName(COLLECTIONS, "third")
    assert routes.table_of("documents/new") is None, "it belongs to no collection any more"


def test_what_a_bulk_load_fills_and_what_indexes_hold_is_not_archived() -> None:
    for keyspace in ("documents/a~2", "index/a/city", "lowtide/receipts"):
        assert Routes().table_of(keyspace) is None
    assert Routes().table_of(CATALOG) == TableName(KEYSPACES, CATALOG)
    assert Routes().table_of("plain") == TableName(KEYSPACES, "plain")


def test_without_changes_of_keyspaces_one_span_is_enough() -> None:
    indexed = change(7, a=row("documents/a", schema=b"x"))
    steps, routes = steps_of(3, 9, Routes(), [indexed])
    assert steps == [LogSpan(3, 9, Routes())]
    assert routes == Routes()
    assert steps_of(9, 9, Routes(), []) == ([], Routes())


def test_a_rename_takes_over_the_state_of_the_other_collection() -> None:
    renamed = change(5, a=row("documents/a~1", exists=False), b=row("documents/a"))
    steps, routes = steps_of(0, 8, Routes(), [renamed])
    after = Routes({"a": "documents/a~1", "b": "documents/a"})
    assert steps == [
        LogSpan(0, 4, Routes()),
        Relocation(5, 5.0, after, (), {"a": None, "b": "a"}),
        LogSpan(5, 8, after),
    ]
    assert routes == after


def test_renames_in_a_circle_are_told_apart() -> None:
    first = Routes({"a": "documents/a~1", "b": "documents/a"})
    back = relocation_of(change(6, b=row("documents/b~1", exists=False), a=row("documents/a")), first)
    assert back is not None
    assert back.states == {"b": None, "a": "b"}
    assert back.routes == Routes({"b": "documents/b~1"})


def test_a_drop_beside_writers_leaves_nothing() -> None:
    dropped = relocation_of(change(6, a=row("documents/a~1", exists=False, doomed=("documents/a",))), Routes())
    assert dropped is not None
    assert dropped.states == {"a": None}


def test_a_bulk_load_is_told_by_its_difference() -> None:
    loaded = row("documents/a~1", former=(Former(4, "documents/a", "lowtide/changes/1"),), loaded=4)
    found = relocation_of(change(4, a=loaded), Routes())
    assert found is not None
    assert found.loads == (Swap(4, 4.0, "a", "documents/a", "documents/a~1", "lowtide/changes/1"),)
    assert found.states == {}
    later = change(9, a=loaded.having(schema=b"x"))
    assert relocation_of(later, found.routes) is None, "the row still names the load, which is over"
