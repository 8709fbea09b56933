"""What was opened before a fork belongs to the parent: the child gets an error, and the store itself joins (K7)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import lowtide
from tests.crash.stores import child, content_of, lines_of, reopened

CHILD_TRIES = """
import json, os, sys, lowtide

store = lowtide.open(
    sys.argv[1], checkpointer=sys.argv[2], durability=sys.argv[3], monitor_interval=0.001, exclusive=sys.argv[4] == "1"
)
keyspace = store.keyspace("k")
keyspace.put(b"base", b"1")
store.checkpoint()
keyspace.put(b"memory", b"1")
tx, snapshot = store.begin(), store.snapshot()
tx.keyspace("k").put(b"child", b"1")
scan = keyspace.scan()

ATTEMPTS = {
    "put": lambda: keyspace.put(b"child", b"1"),
    "get from memory": lambda: keyspace.get(b"memory"),
    "get from base": lambda: keyspace.get(b"base"),
    "scan": lambda: list(keyspace.scan()),
    "begun scan": lambda: list(scan),
    "read in a transaction": lambda: tx.keyspace("k").get(b"base"),
    "read in a snapshot": lambda: snapshot.keyspace("k").get(b"base"),
    "commit": tx.commit,
}
OF_THE_STORE = {
    "begin": lambda: store.begin().rollback(),
    "snapshot": lambda: store.snapshot().close(),
    "run": lambda: store.run(lambda tx: tx.keyspace("k").put(b"of the child", b"1")),
    "keyspace": lambda: store.keyspace("k").get(b"memory"),
    "collection": lambda: collection.insert_one({"_id": 1}),
    "checkpoint": store.checkpoint,
    "collect": store.collect_garbage,
    "stats": store.stats,
    "metrics": store.metrics,
}
collection = store.collection("c")

if os.fork() == 0:
    for name, attempt in (ATTEMPTS | OF_THE_STORE).items():
        try:
            print(json.dumps([name, "answered", repr(attempt())]), flush=True)
        except lowtide.UsageError as error:
            print(json.dumps([name, "refused", str(error)]), flush=True)
        except BaseException as error:
            print(json.dumps([name, "failed", repr(error)]), flush=True)
    store.close()
    del store, keyspace, tx, snapshot, scan
    sys.exit()  # with all that runs at the end of a process
os.wait()
keyspace.put(b"parent", b"1")
store.checkpoint()
print(json.dumps(["parent", "answered", repr(sorted(dict(keyspace.scan())))]), flush=True)
tx.rollback()
store.close()
"""


@pytest.mark.parametrize(("checkpointer", "durability"), [("thread", "full"), ("process", "relaxed")])
def test_a_forked_child_is_refused_with_the_reason_and_the_parent_goes_on(
    tmp_path: Path, checkpointer: str, durability: str
) -> None:
    with child(CHILD_TRIES, tmp_path / "store", checkpointer, durability, "1") as process:
        outcomes = list(lines_of(process))
        assert process.wait() == 0
    *tried, parent = outcomes
    assert len(tried) == 17
    for name, outcome, told in tried:
        assert outcome == "refused", (name, outcome, told)
        assert "fork" in told, (name, told)
    assert parent == ["parent", "answered", "[b'base', b'memory', b'parent']"]
    assert reopened(tmp_path / "store") == {"k": {b"base": b"1", b"memory": b"1", b"parent": b"1"}}


def test_a_forked_child_joins_the_store_and_only_what_its_parent_began_is_refused(tmp_path: Path) -> None:
    with child(CHILD_TRIES, tmp_path / "store", "thread", "full", "0") as process:
        outcomes = list(lines_of(process))
        assert process.wait() == 0
    *tried, parent = outcomes
    for name, outcome, told in tried[4:8]:
        assert (outcome, "fork" in told) == ("refused", True), (name, outcome, told)
    for name, outcome, told in tried[:4] + tried[8:]:
        assert outcome == "answered", (name, outcome, told)
    entries = [(key, b"1") for key in (b"base", b"child", b"memory")]
    assert [told for _, _, told in tried[:4]] == ["None", repr(b"1"), repr(b"1"), repr(entries)]
    assert parent == ["parent", "answered", "[b'base', b'child', b'memory', b'of the child', b'parent']"]
    content = reopened(tmp_path / "store")
    assert content["k"] == dict.fromkeys((b"base", b"child", b"memory", b"of the child", b"parent"), b"1")


SURVIVING_CHILD = """
import json, os, sys, lowtide
store = lowtide.open(sys.argv[1], checkpointer="process")
store.keyspace("k").put(b"a", b"1")
store.checkpoint()
helper = store._backend.checkpointer._helper.process_id
if os.fork() == 0:
    print(json.dumps([os.getpid(), helper]), flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
"""


def test_a_forked_child_that_outlives_its_parent_does_not_keep_the_store_locked(tmp_path: Path) -> None:
    with child(SURVIVING_CHILD, tmp_path / "store") as parent:
        survivor, _ = next(lines_of(parent))
        parent.kill()
        parent.wait()
        try:
            with lowtide.open(tmp_path / "store") as store:
                assert content_of(store) == {"k": {b"a": b"1"}}
        finally:
            os.kill(survivor, signal.SIGKILL)


REOPENING_CHILD = """
import json, os, sys, lowtide
parents = lowtide.open(sys.argv[1] + "/parent")
parents.keyspace("k").put(b"a", b"1")
if os.fork() == 0:
    with lowtide.open(sys.argv[1] + "/child") as own:
        own.keyspace("k").put(b"b", b"2")
    try:
        lowtide.open(sys.argv[1] + "/parent", exclusive=True)
    except lowtide.StoreLocked as error:
        print(json.dumps(error.holder), flush=True)
    os._exit(0)
os.wait()
parents.close()
print(json.dumps(os.getpid()), flush=True)
"""


def test_a_forked_child_may_open_other_stores_and_is_told_who_holds_its_parents(tmp_path: Path) -> None:
    with child(REOPENING_CHILD, tmp_path) as process:
        holder, process_id = lines_of(process)
    assert f"process {process_id}" in holder
    assert reopened(tmp_path / "child") == {"k": {b"b": b"2"}}
    assert reopened(tmp_path / "parent") == {"k": {b"a": b"1"}}
