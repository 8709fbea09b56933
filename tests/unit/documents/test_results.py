"""The results of writes."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.documents.results import (
    BulkWriteResult,
    DeleteResult,
    InsertManyResult,
    InsertOneResult,
    ReturnDocument,
    UpdateResult,
)


def test_results_are_acknowledged_and_do_not_change() -> None:
    results: list[Any] = [InsertOneResult(1), InsertManyResult([1]), UpdateResult(1, 1), DeleteResult(1)]
    for each in results:
        assert each.acknowledged
        with pytest.raises(AttributeError):
            each.acknowledged = False


def test_the_sums_of_a_bulk_write() -> None:
    result = BulkWriteResult()
    parts: list[Any] = [
        InsertOneResult(1),
        UpdateResult(3, 2),
        UpdateResult(0, 0, "x", did_upsert=True),
        DeleteResult(4),
        UpdateResult(0, 0),
        UpdateResult(0, 0, 0, did_upsert=True),
    ]
    for place, each in enumerate(parts):
        result.add(place, each)
    assert (result.inserted_count, result.matched_count, result.modified_count, result.deleted_count) == (1, 3, 2, 4)
    assert (result.upserted_count, result.upserted_ids) == (2, {2: "x", 5: 0})
    details = result.details([{"index": 7}])
    assert details["writeErrors"] == [{"index": 7}]
    assert details["writeConcernErrors"] == [], "which PyMongo's users may look at"
    assert details["upserted"] == [{"index": 2, "_id": "x"}, {"index": 5, "_id": 0}]
    counts = ("nInserted", "nMatched", "nModified", "nRemoved", "nUpserted")
    assert [details[each] for each in counts] == [1, 3, 2, 4, 2]


def test_return_document_is_a_flag_too() -> None:
    assert ReturnDocument(False) is ReturnDocument.BEFORE
    assert ReturnDocument(True) is ReturnDocument.AFTER
