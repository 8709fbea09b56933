"""SIGKILL while documents are written: two collections in one transaction, and an index that is being built (K6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide
from tests.crash.stores import child, lines_of
from tests.support.collections import check_store

WRITING = """
import json, sys, threading, lowtide

path, checkpointer, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = lowtide.open(path, durability="relaxed", checkpointer=checkpointer, segment_bytes=16384,
                     checkpoint_versions=200, map_size=1 << 20)
left, right = store.collection("left"), store.collection("right")
left.create_index("v")
right.create_index([("v", -1), ("w", 1)])
right.create_index("u", unique=True)
speaking = threading.Lock()

def write(writer):
    number = first

    def both(tx):
        for name in ("left", "right"):
            collection = tx[name]
            value = [number, number % 7] if number % 5 == 0 else number
            body = {"v": value, "w": writer, "u": f"{writer} {number}"}
            collection.replace_one({"_id": f"{writer} at {number % 20}"}, body, upsert=True)
            collection.delete_one({"_id": f"{writer} at {(number + 10) % 20}"})
            last = {"$set": {"number": number, "u": f"{writer}"}}
            collection.update_one({"_id": f"{writer} last"}, last, upsert=True)

    while True:
        number += 1
        store.run(both, attempts=1000)
        with speaking:
            print(json.dumps([writer, number]), flush=True)
        if writer == 0 and number % 40 == 0:
            right.drop_index("v_-1_w_1")
            right.create_index([("v", -1), ("w", 1)])

for writer in range(2):
    threading.Thread(target=write, args=(writer,), daemon=True).start()
threading.Event().wait()
"""

BUILDING = """
import json, sys, lowtide
from lowtide.documents.indexes import build as building

path, when = sys.argv[1], int(sys.argv[2])
building.STEP = 3
store = lowtide.open(path, durability="relaxed", checkpointer="thread", segment_bytes=4096, map_size=1 << 20)
collection = store.collection("c")
if not collection.count_documents({}):
    collection.insert_many([{"_id": number, "v": number, "w": [number, -1]} for number in range(60)])
    store.checkpoint()

def progress(done):
    if done % 15 == 0:
        collection.update_one({"_id": done // 2}, {"$inc": {"v": 1000}})
        collection.delete_one({"_id": 59 - done // 5})
        store.checkpoint()
    if done >= when:
        print(json.dumps(done), flush=True)
        sys.stdin.readline()

collection.create_index("v", unique=True, progress=progress)
collection.create_index("w", progress=progress)
print(json.dumps("built"), flush=True)
"""


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
def test_two_collections_written_together_never_differ_however_often_their_owner_is_killed(
    tmp_path: Path, checkpointer: str
) -> None:
    path = tmp_path / "store"
    last = {0: 0, 1: 0}
    for lines in (60, 130, 90):
        first = max(last.values())
        with child(WRITING, path, checkpointer, first) as process:
            heard = 0
            for writer, number in lines_of(process):
                last[writer] = number
                heard += 1
                if heard == lines:
                    process.kill()  # what is still in the pipe was acknowledged too, and is heard before the loop ends
            assert heard >= lines, "the child ended by itself"
        check(path, last)


def check(path: Path, last: dict[int, int]) -> None:
    """What a new owner finds: of each writer the last acknowledged commit, or the one that was under way."""
    with lowtide.open(path, map_size=1 << 20) as store:
        content: dict[str, dict[Any, Any]] = check_store(store, killed=True)
        assert content["left"] == content["right"]
        for writer, number in last.items():
            there = content["left"].get(f"{writer} last", {"number": 0})["number"]
            assert there in (number, number + 1)
            last[writer] = there
            if there:  # it may have been killed before its first commit
                assert content["left"][f"{writer} at {there % 20}"]["u"] == f"{writer} {there}"
        assert store.collection("right").count_documents({"v": {"$gte": 0}}) == len(content["right"]) - 2
        assert store.verify().ok


def test_a_build_whose_process_is_killed_is_finished_by_a_later_one(tmp_path: Path) -> None:
    """Killed at its beginning, in the middle, in the second of two, and again and again."""
    path = tmp_path / "store"
    stages = []
    for when in (3, 30, 45, 55, 1000):
        with child(BUILDING, path, when) as process:
            stages.append(next(lines_of(process)))
            process.kill()
        with lowtide.open(path, map_size=1 << 20) as store:
            documents = check_store(store)["c"]
            collection = store.collection("c")
            for query in ({"v": {"$gte": 1000}}, {"w": -1}, {"v": 7}):
                found = {each["_id"] for each in collection.find(query)}
                assert found == {each["_id"] for each in collection.find(query, hint="$natural")}
            with pytest.raises(lowtide.DuplicateKeyError):
                collection.insert_one({"_id": 1})
            assert len(documents) > 30
    assert stages[-1] == "built"
    assert all(isinstance(stage, int) for stage in stages[:-1])
    with lowtide.open(path, map_size=1 << 20) as store:
        information = store.collection("c").index_information()
        assert information["v_1"] == {"key": [("v", 1)], "unique": True}
        assert information["w_1"] == {"key": [("w", 1)], "multikey": True}
        check_store(store)
