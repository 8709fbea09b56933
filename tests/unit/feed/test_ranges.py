"""A range of commits as rows of changes."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide
from lowtide.engine.log.cursor import LogCursor
from lowtide.feed.ranges import ChangeRows, Marks, Share, commits_in, read_rows, rows_of
from tests.conftest import OpenStore
from tests.unit.feed.stores import SHORT, fill, kept_from


def changed(store: lowtide.Store, since: int = 0, keyspace: str = "fruit", **asked: Any) -> list[tuple[Any, ...]]:
    feed = store._backend.feed
    until = store.stats().last_commit
    prefix = feed.prefix_of(keyspace, until)
    assert prefix is not None
    found: list[ChangeRows] = list(read_rows(feed.commits(since, until), prefix, **asked))
    assert all(len(each) for each in found)
    return [
        row
        for each in found
        for row in zip(each.kinds, each.commits, each.keys, each.values, strict=True)
        if len(each.times) == len(each)
    ]


def write(store: lowtide.Store) -> None:
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"green")
    fruit.put(b"apple", b"red")
    fruit.delete(b"apple")
    fruit.delete(b"apple")
    with store.transaction() as tx:
        tx.keyspace("other").put(b"apple", b"blue")
        tx.keyspace("fruit").put(b"pear", b"yellow")


def test_values_before_are_rows_of_their_own_where_the_log_has_them(open_store: OpenStore) -> None:
    store = open_store(before_images=True)
    write(store)
    last = store.stats().last_commit
    expected = [
        ("insert", 1, b"apple", b"green"),
        ("update_preimage", 2, b"apple", b"green"),
        ("update_postimage", 2, b"apple", b"red"),
        ("delete", 3, b"apple", b"red"),
        ("insert", last, b"pear", b"yellow"),
    ]
    assert changed(store) == expected
    assert changed(store, preimages="require") == expected
    assert changed(store, since=2) == expected[3:]


def test_without_them_updates_are_what_is_left_and_deletes_have_no_value(open_store: OpenStore) -> None:
    store = open_store()
    write(store)
    expected = [
        ("insert", 1, b"apple", b"green"),
        ("update_postimage", 2, b"apple", b"red"),
        ("delete", 3, b"apple", None),
        ("insert", store.stats().last_commit, b"pear", b"yellow"),
    ]
    assert changed(store) == expected
    with pytest.raises(lowtide.UsageError, match=r"commit 2 was logged without .* before_images=True"):
        changed(store, preimages="require")
    store.close()
    images = open_store("images", before_images=True)
    write(images)
    assert changed(images, preimages="none") == expected


def test_shares_part_the_keys_and_keep_the_order(store: lowtide.Store) -> None:
    fruit = store.keyspace("fruit")
    for turn in range(3):
        for number in range(20):
            fruit.put(b"%d" % number, b"%d" % turn)
    shares = [changed(store, share=Share(index, 3)) for index in range(3)]
    assert sorted(row for share in shares for row in share) == sorted(changed(store))
    keys = [{row[2] for row in share} for share in shares]
    assert all(keys)
    assert not (keys[0] & keys[1])
    assert not (keys[1] & keys[2])
    assert not (keys[0] & keys[2])
    for share in shares:
        assert [row[1] for row in share] == sorted(row[1] for row in share)


def test_batches_are_of_the_size_that_was_asked_for(store: lowtide.Store) -> None:
    last = fill(store, 10)
    feed = store._backend.feed
    prefix = feed.prefix_of("fruit", last)
    assert prefix is not None
    assert [len(each) for each in read_rows(feed.commits(0, last), prefix, size=4)] == [4, 4, 2]
    assert [len(rows_of(each, prefix)) for each in commits_in(feed.commits(7, last))] == [1, 1, 1]


def test_what_is_no_longer_kept_is_said_to_be_lost(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    fill(store)
    store.checkpoint()
    with pytest.raises(lowtide.ChangesLost) as caught:
        changed(store)
    assert caught.value.kept == kept_from(store)


def test_a_keyspace_that_nobody_wrote_to_has_no_prefix(store: lowtide.Store) -> None:
    fill(store, 1)
    with lowtide.open(store.path, read_only=True) as beside:
        feed = beside._backend.feed
        assert feed.prefix_of("later", 1) is None
        fill(store, 1, "later")
        assert feed.prefix_of("later", 2) == store._backend.feed.prefix_of("later", 2) is not None


def test_a_moment_is_found_in_the_feed(store: lowtide.Store) -> None:
    fill(store, 3)
    times = [each.time for each in store.changes()]
    feed = store._backend.feed
    assert feed.last_before(times[2]) == 3
    assert feed.last_before(times[0] - 1) == 0
    assert feed.last_before(times[0], inclusive=False) == 0


def test_who_goes_on_where_another_has_ended_finds_the_same(open_store: OpenStore) -> None:
    store = open_store(**SHORT | {"feed_bytes": 1 << 30})
    last = fill(store, 100)
    feed = store._backend.feed
    expected = {change.ts: change.key for change in store.changes()}
    for since, until in ((0, 50), (50, last), (30, 60), (60, 61), (55, last), (last, last), (0, last), (99, last)):
        found = {each.ts: next(iter(each.writes))[4:] for each in commits_in(feed.commits(since, until))}
        assert found == {ts: key for ts, key in expected.items() if since < ts <= until}


def test_a_mark_in_a_segment_that_has_gone_leads_nowhere_else(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    last = fill(store, 60)
    feed = store._backend.feed
    assert len(list(commits_in(feed.commits(0, 10)))) == 10
    store.checkpoint()
    with pytest.raises(lowtide.ChangesLost):
        list(commits_in(feed.commits(10, last)))
    kept = kept_from(store)
    assert [each.ts for each in commits_in(feed.commits(kept - 1, last))] == list(range(kept, last + 1))


def test_marks_are_few_and_the_nearest_is_taken(open_store: OpenStore) -> None:
    store = open_store()
    last = fill(store, 30)
    feed = store._backend.feed
    marks = Marks()
    for position in (*range(1, 21), 5):
        cursor = LogCursor(store.path / "log", feed.commits(0, 0).store_id, position - 1)
        list(cursor.read(position))
        marks.add(feed.commits(0, position), cursor)
        cursor.close()
    nearest = [marks.before(feed.commits(since, last)) for since in (3, 5, 13, 16, 25)]
    assert [None if each is None else each[0] for each in nearest] == [None, 5, 5, 16, 20]
