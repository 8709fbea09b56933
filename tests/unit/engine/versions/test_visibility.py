"""What a snapshot sees of own writes, chains, base and history: properties against a plain dict (I3, I4, K1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from lowtide.engine.types import Range, Writes, after_prefix
from lowtide.engine.versions import changed, visibility
from lowtide.engine.versions.changed import changed_since
from lowtide.engine.versions.own import Overlay
from lowtide.errors import UsageError
from tests.unit.engine.versions.shelves import PREFIX, Shelves, open_shelves, within

# Few keys, so that they meet; one is the prefix of another, one is empty, two lie next to each other.
KEYS = [PREFIX + key for key in (b"", b"a", b"a\x00", b"b", b"c", b"ca", b"d", b"\xff", b"\xff\xff")]

keys = st.sampled_from(KEYS)
values = st.none() | st.binary(min_size=1, max_size=2)
writes = st.dictionaries(keys, values, min_size=1, max_size=5)


def _range(low: bytes, high: bytes | None, reverse: bool) -> Range:
    return Range(low, high if high is None else max(low, high), reverse)


ranges = st.builds(_range, keys, st.none() | st.just(after_prefix(PREFIX)) | keys, st.booleans())
moves = st.sampled_from(["freeze", "apply", "drop"])
steps = st.lists(st.tuples(st.just("commit"), writes) | st.tuples(moves, st.booleans()), max_size=12)

thorough = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=[1, 2])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many entries a scan takes at a time."""
    size: int = request.param
    monkeypatch.setattr(visibility, "_FIRST_CHUNK", size)
    monkeypatch.setattr(visibility, "_LARGEST_CHUNK", size)
    monkeypatch.setattr(visibility, "_LEAST_RUN", size)
    monkeypatch.setattr(changed, "_STEP", size)
    return size


def arrange(shelves: Shelves, script: list[tuple[str, object]]) -> None:
    """Commit and move as ``script`` says. A move with True also takes a snapshot before it, which is kept."""
    for verb, argument in script:
        if verb == "commit":
            assert isinstance(argument, dict)
            shelves.commit(argument)
        else:
            if argument:
                shelves.hold()
            shelves.move(verb)
    shelves.hold()


def scan(shelves: Shelves, wanted: Range, ts: int, own: Writes | None = None) -> Iterator[tuple[bytes, bytes]]:
    view = Overlay().view(own, True) if own is not None else None
    for part in shelves.reader.scan(wanted, lambda: ts, view):
        yield from part


@thorough
@given(script=steps, wanted=ranges, own=st.none() | writes)
def test_a_scan_shows_the_state_of_its_timestamp_under_own_writes(
    chunk: int, script: list[tuple[str, object]], wanted: Range, own: Writes | None
) -> None:
    own_in_range = None if own is None else {key: value for key, value in own.items() if within({key: b""}, wanted)}
    with open_shelves() as shelves:
        arrange(shelves, script)
        for ts in shelves.live:
            assert list(scan(shelves, wanted, ts, own_in_range)) == within(shelves.states[ts], wanted, own_in_range)


@thorough
@given(script=steps, after=steps, wanted=ranges, size=st.integers(1, 4))
def test_the_values_of_a_range_are_those_of_its_timestamp_whatever_moves_under_them(
    script: list[tuple[str, object]], after: list[tuple[str, object]], wanted: Range, size: int
) -> None:
    forwards = Range(wanted.low, wanted.high)
    with open_shelves() as shelves:
        arrange(shelves, script)
        for ts in shelves.live:
            found = [value for part in shelves.reader.values(forwards, partial(int, ts), size) for value in part]
            assert found == [value for _, value in within(shelves.states[ts], forwards)]
        ts = shelves.published
        parts = shelves.reader.values(forwards, lambda: ts, size)
        found = next(parts, [])
        arrange(shelves, after)
        for part in parts:
            assert len(part) <= 2 * size
            found += part
        assert found == [value for _, value in within(shelves.states[ts], forwards)]


def test_no_read_of_a_closed_store_is_answered_by_the_base_alone() -> None:
    """The base lacks what was committed since the last checkpoint, and stays open for the one of the close."""
    wanted, low = [KEYS[1], KEYS[3]], KEYS[0]
    with open_shelves() as shelves:
        arrange(
            shelves, [("commit", dict.fromkeys(wanted, b"old")), ("freeze", False), ("apply", False), ("drop", False)]
        )
        shelves.commit(dict.fromkeys(wanted, b"new"))
        assert shelves.reader.get_latest(KEYS[1]) == b"new"
        shelves.versions.close("the store is closed")
        reads = (
            lambda: shelves.reader.get(KEYS[1], shelves.published),
            lambda: shelves.reader.get_latest(KEYS[1]),
            lambda: shelves.reader.get_many(wanted, shelves.published),
            lambda: shelves.reader.first(Range(low, b"\xff" * 5), shelves.published),
            lambda: list(scan(shelves, Range(low, None), shelves.published)),
        )
        for read in reads:
            with pytest.raises(UsageError, match="the store is closed"):
                read()


@thorough
@given(script=steps)
def test_a_point_read_shows_the_state_of_its_timestamp(script: list[tuple[str, object]]) -> None:
    """Twice, since the first read fills the cache of rows that the second one is served from."""
    with open_shelves() as shelves:
        arrange(shelves, script)
        for _ in range(2):
            for key in KEYS:
                for ts in shelves.live:
                    assert shelves.reader.get(key, ts) == shelves.states[ts].get(key)
                assert shelves.reader.get_latest(key) == shelves.states[-1].get(key)
            for ts in shelves.live:
                assert shelves.reader.get_many(KEYS, ts) == [shelves.states[ts].get(key) for key in KEYS]


@thorough
@given(script=steps, wanted=ranges, most=st.integers(1, 4))
def test_the_first_entries_are_those_of_a_scan(
    chunk: int, script: list[tuple[str, object]], wanted: Range, most: int
) -> None:
    """Twice, since the first may note a gap that the second one skips."""
    with open_shelves() as shelves:
        arrange(shelves, script)
        for ts in [*shelves.live, *shelves.live]:
            expected = within(shelves.states[ts], wanted)
            if wanted.high is not None:
                found = shelves.reader.first(wanted, ts)
                assert (found and (found[0][len(PREFIX) :], found[1])) == (expected[0] if expected else None)
            full, whole = shelves.reader.beginning(wanted, ts, most)
            entries = [(key[len(PREFIX) :], value) for key, value in full]
            assert entries == expected[: len(entries)]
            assert not whole or entries == expected


def looked_up(shelves: Shelves, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys that are looked up in the base from now on."""
    looked: list[bytes] = []
    read = shelves.base.row

    def row(full_key: bytes) -> bytes | None:
        looked.append(full_key)
        return read(full_key)

    monkeypatch.setattr(shelves.base, "row", row)
    return looked


def test_the_absence_of_a_key_is_remembered_until_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_shelves() as shelves:
        looked = looked_up(shelves, monkeypatch)
        for _ in range(3):
            assert shelves.reader.get_latest(KEYS[0]) is None
        assert looked == [KEYS[0]]
        shelves.commit({KEYS[0]: b"x"})
        assert shelves.reader.get_latest(KEYS[0]) == b"x"
        shelves.drop()
        assert shelves.reader.get_latest(KEYS[0]) == b"x"
        shelves.reader.sparse.clear()
        for _ in range(2):
            assert shelves.reader.get_latest(KEYS[1]) is None
        assert looked == [KEYS[0], KEYS[1], KEYS[1]], "an absent key of another keyspace displaces nothing"


def test_a_checkpoint_caches_what_it_brings_to_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_shelves() as shelves:
        shelves.commit({KEYS[0]: b"x", KEYS[1]: b"y" * 600})
        shelves.drop()
        looked = looked_up(shelves, monkeypatch)
        assert shelves.reader.get_latest(KEYS[0]) == b"x"
        assert shelves.reader.get_latest(KEYS[1]) == b"y" * 600
        assert looked == [KEYS[1]], "large values are not cached"


@thorough
@given(before=steps, after=steps, wanted=ranges, first=st.integers(0, 4))
def test_a_scan_goes_on_as_it_began_when_everything_moves_under_it(
    chunk: int, before: list[tuple[str, object]], after: list[tuple[str, object]], wanted: Range, first: int
) -> None:
    with open_shelves() as shelves:
        arrange(shelves, before)
        ts = shelves.published
        entries = scan(shelves, wanted, ts)
        seen = [entry for _, entry in zip(range(first), entries, strict=False)]
        arrange(shelves, after)
        seen += entries
        assert seen == within(shelves.states[ts], wanted)


@thorough
@given(script=steps, after=steps)
def test_what_was_cached_before_a_move_is_right_after_it(
    script: list[tuple[str, object]], after: list[tuple[str, object]]
) -> None:
    with open_shelves() as shelves:
        arrange(shelves, script)
        for key in KEYS:
            shelves.reader.get_latest(key)
        arrange(shelves, after)
        for key in KEYS:
            for ts in shelves.live:
                assert shelves.reader.get(key, ts) == shelves.states[ts].get(key)
            assert shelves.reader.get_latest(key) == shelves.states[-1].get(key)


@thorough
@given(script=steps, wanted=ranges, since=st.integers(0, 12))
def test_changed_since_names_a_key_iff_one_of_the_range_was_changed(
    chunk: int, script: list[tuple[str, object]], wanted: Range, since: int
) -> None:
    """Deletions included, also of keys that came and went: a writer at ``since`` is alive, so their tombstones are."""
    with open_shelves() as shelves:
        shelves.oldest_writer = since
        arrange(shelves, script)
        changed = {
            key: ts
            for ts, committed in enumerate(shelves.changes)
            for key in committed
            if ts > since and within({key: b""}, wanted)
        }
        found = changed_since(shelves.versions, shelves.base, wanted, since)
        assert (found is None) == (not changed)
        if found is not None:
            assert changed[found[0]] == found[1], "the commit that is named is the key's last change"


@given(wanted=ranges, key=keys)
def test_a_range_is_cut_in_two_at_a_key_without_gap_or_overlap(wanted: Range, key: bytes) -> None:
    if not within({key: b""}, wanted):
        return
    for other in KEYS:
        state = {other: b""}
        whole, covered, left = (bool(within(state, part)) for part in (wanted, wanted.upto(key), wanted.beyond(key)))
        assert (covered, left) in ((whole, False), (False, whole))
        assert covered or other != key


def test_a_version_that_is_not_yet_published_is_passed_over() -> None:
    """By the latest read: its predecessor may be in the chain, in the frozen layer, or in the base."""
    key = KEYS[1]
    for moves_before in ([], ["freeze"], ["apply"], ["drop"]):
        with open_shelves() as shelves:
            shelves.commit({key: b"old"})
            for move in moves_before:
                shelves.move(move)
            shelves.versions.publish(2, {key: b"new"})
            assert shelves.reader.get_latest(key) == b"old"
            assert list(scan(shelves, Range(KEYS[0], None), 1)) == [(b"a", b"old")]
            shelves.registry.published = 2
            assert shelves.reader.get_latest(key) == b"new"


@pytest.mark.parametrize("latest", [True, False])
def test_reads_give_way_to_a_commit_that_waits_for_the_disk_and_to_nobody_else(
    monkeypatch: pytest.MonkeyPatch, latest: bool
) -> None:
    given: list[float] = []
    monkeypatch.setattr(visibility, "sleep", given.append)
    with open_shelves() as shelves:
        read = shelves.reader.get_latest if latest else partial(shelves.reader.get, ts=0)
        for syncing, expected in ((False, 0), (True, 3), (False, 3)):
            shelves.registry.syncing = syncing
            for _ in range(3 * visibility._READS_BETWEEN):
                read(KEYS[0])
            assert given == [0] * expected
