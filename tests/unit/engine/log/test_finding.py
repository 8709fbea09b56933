"""Finding commits by time of day and by key, without reading the whole log."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

import lowtide
from lowtide.engine.log.cursor import Released
from lowtide.engine.log.finding import begun_between, bytes_between, commits_with, cut_between, last_before, segments
from lowtide.engine.log.frame import encode_frame, encode_payload
from lowtide.engine.log.segment import HEADER_SIZE, Header, encode_header, segment_path
from tests.conftest import OpenStore
from tests.unit.feed.stores import SHORT, fill, kept_from

STORE = b"s" * 16


def write_log(directory: Path, times: list[list[float]], first: int = 1) -> int:
    """A log with one segment for each list of times, one commit for each time; returns the last commit."""
    ts = first - 1
    for number, inside in enumerate(times):
        data = encode_header(Header(STORE, number + 1, ts + 1, number + 7))
        assert len(data) == HEADER_SIZE
        previous = number + 7
        for time in inside:
            ts += 1
            payload = encode_payload(time, {b"\0\0\0\1key": b"value"}, None, [None], False)
            frame, previous = encode_frame(ts, 0, previous, number + 7, payload)
            data += frame
        marker, _ = encode_frame(ts, ts, previous, number + 7, b"")
        segment_path(directory, number + 1).write_bytes(data + marker + bytes(100))
    return ts


def model(times: list[float], moment: float, inclusive: bool) -> int:
    """The last commit before a moment, of times that ascend."""
    return sum(time < moment or (inclusive and time == moment) for time in times)


@given(st.lists(st.lists(st.integers(0, 20), max_size=4), min_size=1, max_size=5), st.integers(-1, 21), st.booleans())
def test_the_last_commit_before_a_moment_is_found(
    tmp_path_factory: pytest.TempPathFactory, found: list[list[int]], moment: int, inclusive: bool
) -> None:
    directory = tmp_path_factory.mktemp("log")
    flat = sorted(each for inside in found for each in inside)
    ascending = iter(flat)
    last = write_log(directory, [[float(next(ascending)) for _ in inside] for inside in found])
    expected = model([float(each) for each in flat], moment, inclusive)
    assert last_before(directory, STORE, last, float(moment), inclusive=inclusive) == expected


def test_a_moment_before_what_is_kept_has_no_answer(tmp_path: Path) -> None:
    last = write_log(tmp_path, [[10.0, 11.0], [12.0]], first=41)
    assert last_before(tmp_path, STORE, last, 9.0, inclusive=True) is None
    assert last_before(tmp_path, STORE, last, 10.0, inclusive=False) is None
    assert last_before(tmp_path, STORE, last, 10.0, inclusive=True) == 41
    assert last_before(tmp_path, STORE, last, 99.0, inclusive=True) == 43


def test_what_is_not_published_is_not_found(tmp_path: Path) -> None:
    write_log(tmp_path, [[1.0, 2.0], [3.0, 4.0]])
    assert last_before(tmp_path, STORE, 1, 9.0, inclusive=True) == 1
    assert last_before(tmp_path, STORE, 3, 9.0, inclusive=True) == 3


def test_a_time_that_is_a_whole_number_is_understood(tmp_path: Path) -> None:
    last = write_log(tmp_path, [[1, 2, 3]])
    assert last_before(tmp_path, STORE, last, 2.5, inclusive=True) == 2


def test_times_out_of_order_end_at_the_first_later_one(tmp_path: Path) -> None:
    last = write_log(tmp_path, [[1.0, 5.0, 4.0, 6.0]])
    assert last_before(tmp_path, STORE, last, 4.5, inclusive=True) == 1


def test_only_the_commits_that_write_a_key_are_found(open_store: OpenStore) -> None:
    store = open_store(**SHORT | {"feed_bytes": 1 << 30})
    fill(store)
    store.keyspace("fruit").put(b"apple", b"red")
    fill(store)
    with store.transaction() as tx:
        tx.keyspace("fruit").put(b"apple", b"green")
        tx.keyspace("fruit").put(b"pear", b"apple")
    last = store.stats().last_commit
    log, identity = store.path / "log", store._backend.feed.commits(0, 0).store_id
    key = store._backend.engine.catalog.prefix_of("fruit") + b"apple"
    assert len(segments(log, identity)) > 3
    assert [each.ts for each in commits_with(log, identity, key, 0, last)] == [61, last]
    assert [each.ts for each in commits_with(log, identity, key, 61, last)] == [last]
    assert [each.ts for each in commits_with(log, identity, key, 60, last - 1)] == [61]
    assert list(commits_with(log, identity, key[:4] + b"fig", 0, last)) == []
    assert list(commits_with(log, identity, key, last, last)) == []


def test_commits_that_the_log_no_longer_has_are_not_passed_over(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    fill(store)
    store.checkpoint()
    kept = kept_from(store)
    assert kept > 1
    found = commits_with(store.path / "log", store._backend.feed.commits(0, 0).store_id, b"\0\0\0\1x", 0, 60)
    with pytest.raises(Released, match=f"begins with commit {kept}"):
        list(found)


def test_the_bytes_of_a_range_are_told_about(open_store: OpenStore) -> None:
    store = open_store(**SHORT | {"feed_bytes": 1 << 30})
    last = fill(store, 120)
    log, identity = store.path / "log", store._backend.feed.commits(0, 0).store_id
    whole = bytes_between(log, identity, 0, last)
    assert whole == sum(each.size for each in segments(log, identity))
    assert 0.3 * whole < bytes_between(log, identity, last // 2, last) < 0.7 * whole
    assert bytes_between(log, identity, last, last) == 0


def test_a_range_is_cut_into_ranges_of_about_as_much_log(open_store: OpenStore) -> None:
    store = open_store(**SHORT | {"feed_bytes": 1 << 30})
    last = fill(store, 120)
    log, identity = store.path / "log", store._backend.feed.commits(0, 0).store_id
    for since, until in ((0, last), (10, last), (30, 31), (last - 1, last), (7, 100)):
        for parts in (1, 2, 3, 7, 200):
            cuts = cut_between(log, identity, since, until, parts)
            assert cuts == sorted(set(cuts))
            assert len(cuts) < parts
            assert all(since < each < until for each in cuts)
    borders = [0, *cut_between(log, identity, 0, last, 3), last]
    assert len(borders) == 4
    assert all(20 < high - low < 60 for low, high in pairwise(borders))


def test_the_measure_of_a_range_stays_while_the_log_grows(open_store: OpenStore) -> None:
    store = open_store(**SHORT | {"feed_bytes": 1 << 30})
    identity = store._backend.feed.commits(0, 0).store_id
    found: list[tuple[int, int]] = []
    for _ in range(40):
        last = fill(store, 3)
        found.append((last, begun_between(store.path / "log", identity, 0, last)))
        for until, measured in found:
            assert begun_between(store.path / "log", identity, 0, until) == measured
    assert found[0][1] == 0
    assert found[-1][1] > 0


def test_a_segment_of_another_store_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, [[1.0]])
    with pytest.raises(lowtide.CorruptionError, match="not a segment of this store's log"):
        last_before(tmp_path, b"t" * 16, 1, 1.0, inclusive=True)
