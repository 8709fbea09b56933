"""Staged changes are applied in one commit: each document is as its last change left it."""

from __future__ import annotations

import random
from typing import Any

import pytest

import lowtide
from lowtide.errors import DuplicateKeyError, OperationFailure
from lowtide.sharing.loading import bulk
from lowtide.sharing.loading.job import Counts, Job, Receipt, new_job_name
from lowtide.sharing.loading.staged import announce, driver_process, make_staging, remove_staging, stage
from lowtide.sharing.loading.staged_changes import StagedChange, encode_change
from lowtide.values.codec import encode_document
from lowtide.values.ids import id_key
from tests.unit.sharing.loading.jobs import apply, check_indexes, check_nothing_left, documents
from tests.unit.sharing.loading.past import last, settle

Row = tuple[int, dict[str, Any] | int]
"""A version, and the document that it left, or the _id of one that it deleted."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 3)
    monkeypatch.setattr(bulk, "FEW", 2)


def applied(store: lowtide.Store, *files: list[Row], bulk_bytes: int = 1 << 30) -> Receipt:
    """What comes of a job with these files."""
    name = new_job_name()
    directory = make_staging(store.path, name, driver_process())
    staged = []
    for rows in files:
        keys = [id_key(row if isinstance(row, int) else row["_id"]) for _, row in rows]
        changes = [StagedChange(ts, None if isinstance(row, int) else encode_document(row)) for ts, row in rows]
        staged.append(stage(directory, [(keys, list(map(encode_change, changes)))]))
    announce(directory, Job(collection="c", how="changes", files=tuple(staged), bulk_bytes=bulk_bytes))
    try:
        return apply(store, name)
    finally:
        remove_staging(store.path, name)
        settle(store)


@pytest.mark.parametrize("size", [1 << 30, 0])
def test_the_last_change_of_each_document_counts_wherever_it_stands(store: lowtide.Store, size: int) -> None:
    store["c"].insert_many([{"_id": each, "n": each} for each in range(6)])
    before = last(store)
    receipt = applied(
        store,
        [(7, {"_id": 1, "n": 70}), (9, 2), (5, {"_id": 9, "n": 50})],
        [(8, 1), (9, {"_id": 1, "n": 90}), (8, {"_id": 2, "n": 80}), (6, 9), (4, {"_id": 7, "n": 7})],
        [(3, 100), (3, {"_id": 5, "n": 5})],
        bulk_bytes=size,
    )
    assert documents(store) == [
        {"_id": 0, "n": 0},
        {"_id": 1, "n": 90},
        {"_id": 3, "n": 3},
        {"_id": 4, "n": 4},
        {"_id": 5, "n": 5},
        {"_id": 7, "n": 7},
    ]
    with store["c"].watch(since=before, timeout=0) as changes:
        found = sorted((each.id, each.kind, each.ts) for each in changes)
    assert found == [(1, "replace", receipt.ts), (2, "delete", receipt.ts), (7, "insert", receipt.ts)]
    if size:
        assert receipt.counts == Counts(inserted=1, replaced=1, deleted=1)
    check_nothing_left(store)


@pytest.mark.parametrize("size", [1 << 30, 0])
def test_unique_values_may_change_hands(store: lowtide.Store, size: int) -> None:
    """Also where no order of single changes would do."""
    store["c"].create_index("n", unique=True)
    store["c"].insert_many([{"_id": each, "n": each} for each in range(5)])
    applied(
        store,
        [(3, {"_id": 1, "n": 2}), (3, {"_id": 9, "n": 4})],
        [(3, {"_id": 2, "n": 1}), (2, {"_id": 3, "n": 4}), (3, {"_id": 3, "n": 33}), (3, 4)],
        bulk_bytes=size,
    )
    assert {each["_id"]: each["n"] for each in documents(store)} == {0: 0, 1: 2, 2: 1, 3: 33, 9: 4}
    check_indexes(store)
    with pytest.raises(DuplicateKeyError):
        applied(store, [(9, {"_id": 50, "n": 33})], bulk_bytes=size)
    assert len(documents(store)) == 5
    check_nothing_left(store)


@pytest.mark.parametrize("size", [1 << 30, 0])
@pytest.mark.parametrize("apart", [False, True])
def test_two_changes_of_one_commit_to_one_document_are_refused(store: lowtide.Store, size: int, apart: bool) -> None:
    rows: list[Row] = [(3, {"_id": 1}), (3, 1)]
    filler: list[Row] = [(1, {"_id": 10 + each}) for each in range(5)]
    files = [[rows[0], *filler], [rows[1]]] if apart else [rows]
    with pytest.raises(OperationFailure, match="have the same commit, 3, and the same _id, 1"):
        applied(store, *files, bulk_bytes=size)
    assert documents(store) == []


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_the_changes_would_come_to_one_after_the_other(store: lowtide.Store, seed: int) -> None:
    chance = random.Random(seed)
    model: dict[int, dict[str, Any]] = {}
    version = 0
    for _ in range(4):
        rows: list[Row] = []
        for _ in range(chance.randrange(1, 30)):
            version += 1
            key = chance.randrange(10)
            document = {"_id": key, "n": version}
            rows.append((version, key if chance.randrange(3) == 0 else document))
            if rows[-1][1] == key:
                model.pop(key, None)
            else:
                model[key] = document
        chance.shuffle(rows)
        cut = chance.randrange(len(rows) + 1)
        applied(store, rows[:cut], rows[cut:], bulk_bytes=chance.choice((0, 1 << 30)))
        assert {each["_id"]: each for each in documents(store)} == model
    check_nothing_left(store)
