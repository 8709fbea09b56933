"""Whatever is written, an index has exactly the entries of the existing documents, and does not affect the documents.

Each write goes to two collections, one with indexes and one without. Both hold the same documents afterwards, unless an
index refuses the write, and then nothing of it is applied.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, note, settings

import lowtide
from lowtide import Isolation
from lowtide.documents.collection import Collection
from tests.documents.makings import Maker
from tests.support.collections import check_collection

SCALE = float(os.environ.get("LOWTIDE_PROPERTIES", "1"))
_NUMBERS = count()
Write = Callable[[Collection], object]


def update_of(make: Maker) -> dict[str, Any]:
    """One or two operators, each of a path of its own."""
    random = make.random
    found: dict[str, Any] = {}
    for path in random.sample(["a", "b", "c", "a.b", "b.a", "a.0", "a.$[]", "b.$[].a"], random.choice([1, 1, 2])):
        name = random.choice(
            ["$set", "$set", "$unset", "$inc", "$mul", "$min", "$max", "$push", "$addToSet", "$pull", "$pop", "$rename"]
        )
        operand: Any = make.value(1)
        if name in ("$inc", "$mul"):
            operand = random.choice([1, -1, 2.5, 2**60])
        elif name == "$pop":
            operand = random.choice([1, -1])
        elif name == "$push" and random.random() < 0.5:
            operand = {"$each": make.some(), "$slice": random.choice([0, 2, -2])}
        elif name == "$rename":
            operand = random.choice([each for each in ("a", "b", "c", "c.d") if each.split(".")[0] != path[0]])
        found.setdefault(name, {})[path] = operand
    return found


def write_of(make: Maker) -> Write:
    """Some write, said the same to every collection."""
    random = make.random
    _id, body, filter = random.randrange(8), make.body(), make.filter()
    update, upsert = update_of(make), random.random() < 0.3
    note(f"{_id} {body} {filter} {update} {upsert}")
    by_id = {"_id": _id}
    kinds: list[Write] = [
        lambda c: c.insert_one({"_id": _id, **body}),
        lambda c: c.insert_many([{"_id": _id, **body}, {"_id": _id + 1, **body}], ordered=False),
        lambda c: c.replace_one(by_id, body, upsert=upsert),
        lambda c: c.update_one(by_id, update, upsert=upsert),
        lambda c: c.update_one(by_id, update, upsert=upsert),
        lambda c: c.update_many(filter, update),
        lambda c: c.update_many(filter, update),
        lambda c: c.delete_one(by_id),
        lambda c: c.delete_many({"_id": {"$gte": _id}, **filter}),
        lambda c: c.find_one_and_update(filter, update, sort=[("_id", -1)]),
        lambda c: c.find_one_and_replace(filter, body, sort=[("_id", 1)]),
        lambda c: c.find_one_and_delete(filter, sort=[("_id", 1)]),
        lambda c: c.bulk_write([lowtide.UpdateMany(filter, update), lowtide.DeleteOne(by_id)]),
    ]
    return random.choice(kinds)


@given(seed=st.integers(0, 2**64))
@settings(max_examples=int(80 * SCALE), suppress_health_check=list(HealthCheck))
def test_indexes_follow_every_write_and_change_nothing_else(shared_store: lowtide.Store, seed: int) -> None:
    make, number = Maker(seed), next(_NUMBERS)
    indexed, twin = f"indexed {number}", f"twin {number}"
    for name in (indexed, twin):
        shared_store.collection(name).insert_many([{"_id": n, "a": n % 3} for n in range(3)])
    for _ in range(make.random.randint(1, 4)):
        make.index().create(shared_store.collection(indexed))
    for _ in range(12):
        level = make.random.choice([None, *Isolation])
        if level is None:
            both(shared_store, shared_store, [write_of(make)], indexed, twin)
            continue
        keep = level is Isolation.NONE or make.random.random() < 0.7
        before = check_collection(shared_store, indexed)
        tx = shared_store.begin(level)
        both(tx, tx, [write_of(make) for _ in range(2)], indexed, twin)
        if keep:
            tx.commit()
        else:
            tx.rollback()
            assert check_collection(shared_store, indexed) == before
        if make.random.random() < 0.1:
            make.index().create(shared_store.collection(indexed))
    assert check_collection(shared_store, indexed) == check_collection(shared_store, twin)
    shared_store.collection(indexed).drop()
    shared_store.collection(twin).drop()


def both(
    source: lowtide.Store | lowtide.Transaction, looked_at: Any, writes: list[Write], indexed: str, twin: str
) -> None:
    """Do each write to both; what only the indexes refuse is done to neither."""
    for write in writes:
        before = check_collection(looked_at, indexed)
        try:
            write(source.collection(indexed))
        except lowtide.BulkWriteError:  # a part of it was refused: the twin is told what became of it
            follow(source.collection(twin), check_collection(looked_at, indexed))
        except lowtide.UsageError:
            assert check_collection(looked_at, indexed) == before
        else:
            write(source.collection(twin))
        assert check_collection(looked_at, indexed) == check_collection(looked_at, twin)


def follow(collection: Collection, documents: dict[Any, Any]) -> None:
    collection.delete_many({})
    if documents:
        collection.insert_many(list(documents.values()))
