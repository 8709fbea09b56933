"""The cost of a scan does not depend on how many keys were deleted before it. Keys and rows are counted, not time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sized
from functools import partial

import pytest

import lowtide
from lowtide.engine.base.environment import Base
from lowtide.engine.base.pinned import PinnedBase
from lowtide.engine.versions.ordered import OrderedKeys
from tests.conftest import OpenStore
from tests.support.parts import parts_of

COUNT = 1000
FEW = 200
"""Keys and rows that a scan may look at which wants one entry: a few chunks."""


class Looked:
    """Counts the keys of layers and the rows of the base that scans take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._lock = threading.Lock()
        between = OrderedKeys.between

        def counted_keys(*arguments: object) -> list[bytes]:
            found = between(*arguments)  # type: ignore[arg-type]
            self._add(len(found))
            return found

        monkeypatch.setattr(OrderedKeys, "between", counted_keys)
        for kind in (Base, PinnedBase):
            monkeypatch.setattr(kind, "chunk", self._counting(kind.chunk))

    def _counting(self, chunk: Callable[..., tuple[Sized, object]]) -> Callable[..., object]:
        def counted(*arguments: object, **named: object) -> object:
            entries, last = chunk(*arguments, **named)
            self._add(len(entries))
            return entries, last

        return counted

    def _add(self, count: int) -> None:
        with self._lock:
            self.count += count

    def most(self, work: Callable[[], object], times: int) -> int:
        """The most that one of ``times`` calls looks at."""
        most = 0
        for _ in range(times):
            before = self.count
            work()
            most = max(most, self.count - before)
        return most


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


@pytest.fixture(params=[False, True], ids=["layer", "base"])
def store(request: pytest.FixtureRequest, open_store: OpenStore) -> lowtide.Store:
    """With a queue, jobs and a keyspace, which are in memory, or in the base.

    Checkpoints run in a thread: who writes the base is nothing to a scan, and a process would have to start for each.
    """
    store = open_store(checkpointer="thread")
    store.collection("jobs").create_index([("status", 1), ("n", 1)])
    store.collection("jobs").insert_many([{"_id": n, "status": "new", "n": n} for n in range(COUNT)])
    store.collection("queue").insert_many([{"_id": n} for n in range(COUNT)])
    store.keyspace("k").put_many({b"%04d" % n: b"" for n in range(COUNT)})
    if request.param:
        store.checkpoint()
    return store


def pop_id(store: lowtide.Store) -> None:
    assert store.collection("queue").find_one_and_delete({}, sort=[("_id", 1)]) is not None


def pop_last_id(store: lowtide.Store) -> None:
    assert store.collection("queue").find_one_and_delete({}, sort=[("_id", -1)]) is not None


def pop_status(store: lowtide.Store) -> None:
    changed = store.collection("jobs").find_one_and_update(
        {"status": "new"}, {"$set": {"status": "done"}}, sort=[("n", 1)]
    )
    assert changed is not None


def pop_any_of_status(store: lowtide.Store) -> None:
    assert store.collection("jobs").delete_one({"status": "new"}).deleted_count == 1


def pop_key(store: lowtide.Store, reverse: bool = False) -> None:
    keyspace = store.keyspace("k")
    key, _ = next(keyspace.scan(reverse=reverse))
    keyspace.delete(key)


def pop_last_key(store: lowtide.Store) -> None:
    pop_key(store, True)


POPS = pytest.mark.parametrize("pop", [pop_id, pop_last_id, pop_status, pop_any_of_status])


@POPS
def test_the_cost_of_a_pop_does_not_depend_on_how_many_went_before(
    store: lowtide.Store, looked: Looked, pop: Callable[[lowtide.Store], None]
) -> None:
    assert looked.most(lambda: pop(store), COUNT - 50) <= FEW


@pytest.mark.parametrize("pop", [pop_key, pop_last_key])
def test_the_same_of_a_keyspace(store: lowtide.Store, looked: Looked, pop: Callable[[lowtide.Store], None]) -> None:
    """A scan of a keyspace reads 128 entries at first, from the layer and from the base, and again when it notes."""
    assert looked.most(lambda: pop(store), COUNT - 50) <= 6 * 128


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_transaction_that_pops_many_times_does_not_slow_down(
    store: lowtide.Store, looked: Looked, newest_first: bool, level: str
) -> None:
    """Its own deletions hide what is committed."""
    with store.transaction(level) as tx:
        queue = tx.collection("queue")
        order = -1 if newest_first else 1
        gone = []

        def pop() -> None:
            found = queue.find_one_and_delete({}, sort=[("_id", order)])
            assert found is not None
            gone.append(found["_id"])

        assert looked.most(pop, COUNT - 50) <= FEW
        assert gone == sorted(range(COUNT), reverse=newest_first)[: COUNT - 50]
    assert store.collection("queue").count_documents({}) == 50


def test_find_one_after_most_were_deleted(store: lowtide.Store, looked: Looked) -> None:
    queue = store.collection("queue")
    queue.delete_many({"_id": {"$lt": COUNT - 10}})
    assert queue.find_one() == {"_id": COUNT - 10}
    assert looked.most(queue.find_one, 3) <= FEW
    assert looked.most(lambda: next(iter(queue.find({"_id": {"$gt": 100}}))), 3) <= 2 * FEW
    with store.snapshot() as snapshot:
        list(snapshot.collection("queue").find())
        assert looked.most(lambda: list(snapshot.collection("queue").find()), 3) <= FEW


def test_an_empty_queue_is_found_to_be_empty(store: lowtide.Store, looked: Looked) -> None:
    queue = store.collection("queue")
    queue.delete_many({})
    assert queue.find_one(sort=[("_id", 1)]) is None
    assert looked.most(lambda: queue.find_one(sort=[("_id", 1)]), 3) <= FEW
    assert looked.most(lambda: queue.find_one(sort=[("_id", -1)]), 3) <= FEW


def test_what_is_pushed_into_the_deleted_part_is_popped_next(store: lowtide.Store, looked: Looked) -> None:
    number = 300
    for _ in range(number):
        pop_id(store)
    queue = store.collection("queue")

    def push_and_pop() -> None:
        nonlocal number
        number -= 7
        queue.insert_one({"_id": number})
        assert queue.find_one_and_delete({}, sort=[("_id", 1)]) == {"_id": number}

    assert looked.most(push_and_pop, 40) <= FEW
    assert queue.find_one(sort=[("_id", 1)]) == {"_id": 300}


def test_a_reader_of_an_older_snapshot_does_not_slow_down_beside_those_who_pop(
    store: lowtide.Store, looked: Looked
) -> None:
    """The gap that serves it is kept apart from what was deleted since."""
    for _ in range(300):
        pop_id(store)
    with store.snapshot() as old:

        def read() -> None:
            pop_id(store)
            assert next(iter(old.collection("queue").find(sort=[("_id", 1)]))) == {"_id": 300}

        assert looked.most(read, 600) <= 3 * FEW


def test_a_checkpoint_forgets_the_gaps_and_scans_find_what_is_left(store: lowtide.Store, looked: Looked) -> None:
    for _ in range(300):
        pop_id(store)
    versions = parts_of(store).versions
    assert versions.gaps.of
    store.checkpoint()
    assert versions.gaps.of == {}
    assert looked.most(lambda: pop_id(store), 200) <= FEW


def test_the_tombstones_of_the_base_are_left_out_too(store: lowtide.Store, looked: Looked) -> None:
    """They stay there for a writer that began before the deletions."""
    with store.transaction() as old:
        store.collection("queue").delete_many({"_id": {"$lt": COUNT - 10}})
        store.checkpoint()
        queue = store.collection("queue")
        assert queue.find_one() == {"_id": COUNT - 10}
        assert parts_of(store).versions.gaps.of
        assert old.collection("queue").find_one() == {"_id": 0}


def test_a_follower_leaves_out_what_was_deleted(store: lowtide.Store, looked: Looked) -> None:
    with lowtide.open(store.path, read_only=True) as follower:
        queue = follower.collection("queue")
        assert queue.find_one(sort=[("_id", 1)]) == {"_id": 0}
        for _ in range(COUNT - 100):
            pop_id(store)
        assert queue.find_one(sort=[("_id", 1)]) == {"_id": COUNT - 100}
        assert looked.most(lambda: queue.find_one(sort=[("_id", 1)]), 3) <= FEW
        store.collection("queue").insert_one({"_id": 5})
        assert queue.find_one(sort=[("_id", 1)]) == {"_id": 5}


def test_threads_that_pop_and_push_lose_nothing_and_pop_nothing_twice(store: lowtide.Store, looked: Looked) -> None:
    popped: list[int] = []
    failures: list[BaseException] = []
    threads = [threading.Thread(target=work) for work in _workers(store, popped, failures)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    while (found := store.collection("queue").find_one_and_delete({}, sort=[("_id", 1)])) is not None:
        popped.append(found["_id"])
    pushed = [10_000 * who + n for who in (-2, -1, 1, 2) for n in range(25)]
    assert sorted(popped) == sorted([*range(COUNT), *pushed])
    assert looked.count / len(popped) <= 2 * FEW


def _workers(store: lowtide.Store, popped: list[int], failures: list[BaseException]) -> Iterator[Callable[[], None]]:
    """Half of them push before what was popped, the others behind what is there."""

    def work(who: int) -> None:
        queue = store.collection("queue")
        try:
            for number in range(100):
                found = queue.find_one_and_delete({}, sort=[("_id", 1)])
                assert found is not None
                popped.append(found["_id"])
                if number % 4 == 0:
                    queue.insert_one({"_id": 10_000 * who + number // 4})
        except BaseException as error:
            failures.append(error)

    return (partial(work, who) for who in (-2, -1, 1, 2))
