"""The feed of a store: what it shows, what it refuses, and that it never skips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.unit.feed.stores import SHORT, fill, kept_from, stamps


def test_changes_come_in_commit_order_with_everything_that_is_known_of_them(open_store: OpenStore) -> None:
    store = open_store(before_images=True)
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"green")
    fruit.put(b"apple", b"red")
    fruit.delete(b"apple")
    found = list(store.changes(before=True))
    assert [(each.ts, each.keyspace, each.key, each.kind, each.value, each.before) for each in found] == [
        (1, "fruit", b"apple", "insert", b"green", None),
        (2, "fruit", b"apple", "update", b"red", b"green"),
        (3, "fruit", b"apple", "delete", None, b"red"),
    ]
    assert all(each.time > 1_000_000_000 for each in found)


def test_since_is_left_out_and_until_is_shown(store: lowtide.Store) -> None:
    fill(store, 5)
    assert stamps(store.changes(2, 4)) == [3, 4]
    assert stamps(store.changes(since=5)) == []
    assert stamps(store.changes(4, 2)) == []
    assert stamps(store.changes(until=0)) == []


def test_what_is_committed_after_the_call_is_not_shown(store: lowtide.Store) -> None:
    fill(store, 2)
    changes = store.changes()
    next(changes)
    fill(store, 2)
    assert stamps(changes) == [2]


@pytest.mark.parametrize("keyspaces", [["left"], "left", {"left", "no such one"}, iter(["left"])])
def test_only_the_keyspaces_that_were_asked_for_are_shown(store: lowtide.Store, keyspaces: Any) -> None:
    with store.transaction() as tx:
        for name in ("left", "right"):
            tx.keyspace(name).put(b"key", name.encode())
    fill(store, 1, "right")
    fill(store, 1, "left")
    assert [(each.ts, each.keyspace) for each in store.changes(keyspaces=keyspaces)] == [(1, "left"), (3, "left")]
    assert list(store.changes(keyspaces=[])) == []
    assert list(store.changes(keyspaces=["no such one"])) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"since": -1}, "since must be the timestamp of a commit"),
        ({"since": True}, "since must be the timestamp"),
        ({"since": 1.0}, "since must be the timestamp"),
        ({"since": "3"}, "since must be the timestamp"),
        ({"since": None}, "since must be the timestamp"),
        ({"until": -1}, "until must be the timestamp"),
        ({"until": 4}, "until: commit 4 does not exist yet; the last one is 3"),
        ({"since": 4}, "since: commit 4 does not exist yet; the last one is 3"),
    ],
)
def test_what_is_no_commit_is_refused_at_once(store: lowtide.Store, arguments: dict[str, Any], words: str) -> None:
    fill(store, 3)
    with pytest.raises(lowtide.UsageError, match=words):
        store.changes(**arguments)
    if "since" in arguments and arguments["since"] is not None:
        with pytest.raises(lowtide.UsageError, match=words):
            store.watch(**arguments)


def test_values_before_that_were_not_logged_are_refused_with_what_to_do(open_store: OpenStore) -> None:
    store = open_store()
    fill(store, 2)
    with pytest.raises(lowtide.UsageError, match=r"commit 1 was logged without .* before_images=True"):
        list(store.changes(before=True))
    store.close()
    store = open_store(before_images=True)
    store.keyspace("fruit").put(b"000000", b"new")
    assert [each.before for each in store.changes(2, before=True)] == [b"x" * 150]
    with pytest.raises(lowtide.UsageError, match="commit 2 was logged without"):
        list(store.changes(1, before=True))


def test_a_place_before_what_is_kept_is_refused_with_the_right_numbers(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    last = fill(store)
    store.checkpoint()
    kept = kept_from(store)
    assert 1 < kept <= last
    for call in (store.changes, store.watch):
        with pytest.raises(lowtide.ChangesLost) as caught:
            call(since=kept - 2)
        assert (caught.value.since, caught.value.kept) == (kept - 2, kept)
        assert f"commit {kept - 2}" in str(caught.value)
        assert f"commit {kept}." in str(caught.value)
    assert stamps(store.changes(kept - 1)) == list(range(kept, last + 1))
    with pytest.raises(lowtide.ChangesLost):
        store.changes()


def test_a_reader_whose_log_goes_under_it_is_told_and_shown_nothing_beyond(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    fill(store)
    changes = store.changes()
    seen = [next(changes).ts]
    for _ in range(3):
        fill(store)
        store.checkpoint()
    with pytest.raises(lowtide.ChangesLost) as caught:
        seen.extend(change.ts for change in changes)
    assert seen == list(range(1, len(seen) + 1))
    assert (caught.value.since, caught.value.kept) == (len(seen), kept_from(store))


def test_a_store_without_commits_has_no_changes(store: lowtide.Store) -> None:
    assert list(store.changes()) == []
    assert list(store.watch(timeout=0)) == []


def test_after_a_checkpoint_and_reopening_everything_is_there_while_the_feed_has_room(open_store: OpenStore) -> None:
    store = open_store(**{**SHORT, "feed_bytes": 1 << 20})
    last = fill(store, 150)
    store.checkpoint()
    expected = list(store.changes())
    assert stamps(expected) == list(range(1, last + 1))
    store.close()
    store = open_store(**{**SHORT, "feed_bytes": 1 << 20})
    assert list(store.changes()) == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.changes(),
        lambda store: store.watch(),
        lambda store: store.consumer("mirror"),
        lambda store: store.consumers(),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_closed_store_refuses_its_feed(
    open_store: OpenStore, call: Callable[[lowtide.Store], object], read_only: bool
) -> None:
    store = open_store()
    fill(store, 2)
    reader = open_store(read_only=True) if read_only else store
    reader.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        call(reader)


@pytest.mark.parametrize("read_only", [False, True])
def test_changes_that_are_being_read_end_with_the_store(open_store: OpenStore, read_only: bool) -> None:
    store = open_store()
    fill(store, 3)
    reader = open_store(read_only=True) if read_only else store
    changes = reader.changes()
    next(changes)
    reader.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        list(changes)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_reader_knows_keyspaces_that_were_made_after_it_was_opened(open_store: OpenStore, checkpointed: bool) -> None:
    """The commit that names a keyspace may lie before the place that is read from."""
    store = open_store()
    reader = open_store(read_only=True)
    since = fill(store, 1, "made later")
    if checkpointed:
        store.checkpoint()
    with reader.watch(timeout=0) as watch:
        fill(store, 1, "made later")
        assert [each.keyspace for each in watch] == ["made later"]
    assert [each.keyspace for each in reader.changes(since)] == ["made later"]
    assert [each.keyspace for each in reader.changes(since, keyspaces=["made later"])] == ["made later"]
    fill(store, 1, "made last")
    fill(store, 1, "made last")
    assert [each.ts for each in reader.changes(3, keyspaces="made last")] == [4]


@pytest.mark.parametrize("keyspaces", [5, [5], [b"fruit"], [""]])
def test_keyspaces_that_are_no_names_are_refused(store: lowtide.Store, keyspaces: Any) -> None:
    with pytest.raises(lowtide.UsageError, match="names of keyspaces"):
        list(store.changes(keyspaces=keyspaces))
    with pytest.raises(lowtide.UsageError, match="names of keyspaces"):
        list(store.watch(keyspaces=keyspaces, timeout=0))
