"""Makes jobs as a driver and its tasks do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lowtide
from lowtide.documents.catalog import CATALOG, row_of
from lowtide.documents.indexes.entries import entry_key, entry_value
from lowtide.sharing.loading.job import How, Job, Receipt, new_job_name
from lowtide.sharing.loading.staged import announce, driver_process, make_staging, remove_staging, stage
from lowtide.values.codec import decode_document, encode_document
from lowtide.values.ids import id_key

Documents = list[dict[str, Any]]


def prepare(path: Path, how: How, *files: Iterable[dict[str, Any]], batch: int = 1000, **more: Any) -> str:
    """Stage a file for each list of documents, and announce the job; its name."""
    name = new_job_name()
    directory = make_staging(path, name, driver_process())
    staged = []
    for documents in files:
        rows = list(documents)
        parts = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        staged.append(
            stage(
                directory,
                (
                    (
                        [id_key(each["_id"]) for each in part],
                        None if how == "delete" else [encode_document(each) for each in part],
                    )
                    for part in parts
                ),
            )
        )
    announce(directory, Job(**{"collection": "c", "how": how, "files": tuple(staged), **more}))
    return name


def load(store: lowtide.Store, how: How, *files: Iterable[dict[str, Any]], **more: Any) -> Receipt:
    """Do a job in the process that owns the store."""
    name = prepare(store.path, how, *files, **more)
    try:
        return apply(store, name)
    finally:
        remove_staging(store.path, name)


def apply(store: lowtide.Store, name: str) -> Receipt:
    receipt: Receipt = store._backend.loader.apply(name)  # type: ignore[union-attr]
    return receipt


def documents(store: lowtide.Store) -> Documents:
    return list(store["c"].find({}, sort=[("_id", 1)]))


def check_indexes(store: lowtide.Store) -> None:
    """Each index has exactly the entries of the documents that are there."""
    row = row_of("c", store.keyspace(CATALOG).get(b"c"))
    stored = list(store.keyspace(row.keyspace).scan())
    for entries in row.entries:
        index = entries.index
        expected = {
            entry_key(index, values, key): entry_value(index, key)
            for key, encoded in stored
            for values in entries.of(decode_document(encoded))[0]
        }
        assert dict(store.keyspace(index.keyspace).scan()) == expected


def check_nothing_left(store: lowtide.Store) -> None:
    """No keyspace of documents or entries has anything but those that the collection has now, and those that the change
    feed needs."""
    row = row_of("c", store.keyspace(CATALOG).get(b"c"))
    assert (row.loading, row.doomed) == ((), ())
    known = {*row.keyspaces, *(each.changes for each in row.former)}
    for name in store.keyspaces():
        if name.startswith(("documents/c", "index/c")) and name not in known:
            assert list(store.keyspace(name).scan()) == [], name
