"""The commit since which a keyspace has not changed: never wrong, whatever checkpoints, restarts and copies happen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from tests.conftest import OpenStore
from tests.unit.engine.base.bases import temporary_directory

KEYSPACES = ("a", "b")
STEPS = st.lists(
    st.sampled_from(["put a", "put b", "delete a", "delete b", "checkpoint", "collect", "reopen", "compact", "pin"]),
    max_size=25,
)


@settings(max_examples=40)
@given(STEPS)
def test_the_commit_that_it_names_had_the_same_content(steps: list[str]) -> None:
    """Of owner, follower and pins; and where it is known, it is the very last change."""
    with temporary_directory() as directory:
        store = lowtide.open(directory / "store", durability="relaxed")
        content: dict[str, set[bytes]] = {name: set() for name in KEYSPACES}
        at = {0: {name: frozenset[bytes]() for name in KEYSPACES}}
        last = dict.fromkeys(KEYSPACES, 0)
        history = {0: dict(last)}
        pins: list[lowtide.Pin] = []
        try:
            for number, step in enumerate(steps):
                kind, _, name = step.partition(" ")
                if kind == "put":
                    store.keyspace(name).put(b"%d" % number, b"")
                    content[name].add(b"%d" % number)
                elif kind == "delete" and content[name]:
                    store.keyspace(name).delete(min(content[name]))
                    content[name].remove(min(content[name]))
                elif kind == "checkpoint":
                    store.checkpoint()
                elif kind == "collect":
                    store.collect_garbage()
                elif kind == "reopen":
                    store.close()
                    store = lowtide.open(directory / "store", durability="relaxed")
                elif kind == "compact":
                    store.compact()
                elif kind == "pin":
                    pins.append(store.pin(f"pin {number}", 60))
                ts = store.stats().last_commit
                if ts not in at:
                    last[name] = ts
                    history[ts] = dict(last)
                    at[ts] = {each: frozenset(content[each]) for each in KEYSPACES}
            with store.snapshot() as snapshot, lowtide.open(store.path, read_only=True) as follower:
                for each in KEYSPACES:
                    assert snapshot.unchanged_since(each) == last[each]
                    with follower.snapshot() as followed:
                        assert followed.unchanged_since(each) == last[each]
            for pin in pins:
                with lowtide.open_snapshot(store.path, pin=pin) as pinned:
                    for each in KEYSPACES:
                        found = pinned.unchanged_since(each)
                        changed_since = last[each] > pin.ts
                        assert found in ((None, history[pin.ts][each]) if changed_since else (last[each],))
                        assert found is None or at[found][each] == {key for key, _ in pinned.keyspace(each).scan()}
        finally:
            store.close()


def test_a_change_after_a_snapshot_makes_it_unknown_once_it_is_in_the_base(store: lowtide.Store) -> None:
    store.keyspace("a").put(b"x", b"1")
    with store.snapshot() as snapshot:
        store.keyspace("a").put(b"x", b"2")
        assert snapshot.unchanged_since("a") == 1
        store.checkpoint()
        assert snapshot.unchanged_since("a") is None
        assert snapshot.unchanged_since("never used") == 0


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
def test_every_way_to_make_a_checkpoint_marks(open_store: OpenStore, checkpointer: str) -> None:
    store = open_store(checkpointer=checkpointer)
    with store.transaction() as tx:
        tx.keyspace("a").put(b"x", b"1")
        tx.keyspace("b").put(b"x", b"1")
    store.keyspace("b").delete(b"x")
    store.checkpoint()
    with store.snapshot() as snapshot:
        assert (snapshot.unchanged_since("a"), snapshot.unchanged_since("b")) == (1, 2)


def test_recovery_and_a_restored_backup_mark(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.keyspace("a").put(b"x", b"1")
    store.checkpoint()
    store.backup(tmp_path / "backup")
    store.keyspace("b").put(b"x", b"1")
    store.backup(tmp_path / "backup")
    shutil.copytree(store.path, tmp_path / "killed")
    for copy in ("backup", "killed"):
        with lowtide.open(tmp_path / copy) as opened, opened.snapshot() as snapshot:
            assert (snapshot.unchanged_since("a"), snapshot.unchanged_since("b")) == (1, 2)
