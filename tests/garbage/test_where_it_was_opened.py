"""A snapshot that the library takes inside a call names the line of the program that made the call (invariant 6)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.documents.reader import CollectionReader

CALLS: dict[str, Callable[[lowtide.Store], Any]] = {
    "sql": lambda store: store.sql("select * from users"),
    "to_arrow": lambda store: store["users"].to_arrow(),
    "to_pandas": lambda store: store["users"].to_pandas(),
    "count": lambda store: store["users"].count_documents({"n": 3}),
    "distinct": lambda store: store["users"].distinct("n"),
    "find": lambda store: store["users"].find({"n": {"$gt": 1}}).to_list(),
    "aggregate": lambda store: list(store["users"].aggregate([{"$match": {"n": 2}}])),
    "update": lambda store: store["users"].update_many({"n": 1}, {"$inc": {"n": 1}}),
    "bulk": lambda store: store["users"].bulk_write([lowtide.UpdateOne({"n": 1}, {"$inc": {"n": 1}})]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_named_by_the_line_that_made_it(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    with lowtide.open(tmp_path / "s", durability="relaxed") as store:
        store["users"].insert_many({"_id": number, "n": number % 5} for number in range(20))
        made = CollectionReader.__init__

        def noted(self: CollectionReader, *arguments: Any) -> None:
            seen.update(each.where for each in store.stats().snapshots)
            made(self, *arguments)

        monkeypatch.setattr(CollectionReader, "__init__", noted)
        CALLS[call](store)
    _, first = inspect.getsourcelines(CALLS[call])
    assert seen == {f"{__file__}:{first}"}
