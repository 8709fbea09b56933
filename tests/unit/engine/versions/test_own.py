"""Own writes during scans: a scan shows them as they were when it began, whatever is written or undone meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import hypothesis.strategies as st
from hypothesis import given, settings

from lowtide.engine.types import Range, Writes
from lowtide.engine.versions.own import Overlay
from tests.unit.engine.versions.shelves import PREFIX, Shelves, State, open_shelves, within

KEYS = [PREFIX + bytes([letter]) for letter in b"abcdef"]
END = PREFIX + b"\xff"

keys = st.sampled_from(KEYS)
writes = st.dictionaries(keys, st.none() | st.just(b"own") | st.none(), min_size=1, max_size=4)
ranges = st.builds(
    lambda low, high, reverse: Range(low, max(low, high), reverse),
    st.just(PREFIX) | keys,
    st.just(END) | keys,
    st.booleans(),
)
Step = tuple[str, object]
steps = st.lists(
    st.tuples(st.just("write"), writes)
    | st.tuples(st.just("scan"), st.tuples(ranges, st.integers(0, 3)))
    | st.tuples(st.just("go on"), st.integers(1, 3))
    | st.tuples(st.sampled_from(["mark", "undo"]), st.none()),
    max_size=25,
)


class Buffer:
    """A transaction's buffer, as it is written, marked and undone."""

    def __init__(self, shelves: Shelves) -> None:
        self.shelves = shelves
        self.state: State = shelves.states[-1]
        self.writes: Writes = {}
        self.overlay = Overlay()
        self.marked: Writes = {}
        self.scans: list[tuple[Iterator[tuple[bytes, bytes]], Iterator[tuple[bytes, bytes]]]] = []

    def step(self, verb: str, argument: object) -> None:
        if verb == "write":
            assert isinstance(argument, dict)
            self.overlay.change(argument)
            self.writes.update(argument)
        elif verb == "mark":
            self.marked = dict(self.writes)
        elif verb == "undo":
            self.overlay.undo(list(self.writes))
            self.writes.clear()
            self.writes.update(self.marked)
        elif verb == "scan":
            assert isinstance(argument, tuple)
            wanted, count = argument
            expected = iter(within(self.state, wanted, self.writes))
            self.scans.append((self.scan(wanted), expected))
            self.step("go on", count)
        else:
            assert isinstance(argument, int)
            for found, expected in self.scans[-2:]:
                assert list(islice(found, argument)) == list(islice(expected, argument))

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        view = self.overlay.view(self.writes, True)
        chunks = self.shelves.reader.scan(wanted, lambda: self.shelves.published, view)
        return (entry for chunk in chunks for entry in chunk)


@settings(max_examples=300)
@given(script=steps)
def test_every_scan_shows_the_own_writes_as_they_were_when_it_began(script: list[Step]) -> None:
    with open_shelves() as shelves:
        shelves.reader.first_chunk = 1
        shelves.commit(dict.fromkeys(KEYS[::2], b"committed"))
        shelves.drop()
        shelves.commit(dict.fromkeys(KEYS[1::3], b"later"))
        buffer = Buffer(shelves)
        for verb, argument in script:
            buffer.step(verb, argument)
        for found, expected in buffer.scans:
            assert list(found) == list(expected)


def test_a_view_reads_keys_as_they_were() -> None:
    overlay, buffer = Overlay(), Writes({b"a": b"1", b"b": None})
    view = overlay.view(buffer, True)
    change: Writes = {b"a": b"2", b"b": b"2", b"c": b"2"}
    overlay.change(change)
    buffer.update(change)
    asked: list[bytes] = [b"a", b"b", b"c", b"d"]
    committed: list[bytes | None] = [b"0", b"0", b"0", b"0"]
    assert view.values_over(asked, committed) == [b"1", None, b"0", b"0"]
    assert overlay.view(buffer, True).values_over(asked, committed) == [b"2", b"2", b"2", b"0"]


def test_views_are_shared_until_something_is_written_and_forgotten_when_no_scan_has_them() -> None:
    overlay, buffer = Overlay(), Writes({b"a": b"1"})
    view = overlay.view(buffer, True)
    assert overlay.view(buffer, True) is view
    overlay.change({b"a": b"2"})
    assert overlay.view(buffer, True) is not view
    assert len(overlay._views) <= 2
    del view
    overlay.change({b"a": b"3"})
    assert overlay._views == []


def test_below_snapshot_no_gap_is_kept_since_others_may_put_something_there() -> None:
    with open_shelves() as shelves:
        shelves.commit({KEYS[0]: b"1", KEYS[1]: b"1"})
        for fixed in (True, False):
            overlay, buffer = Overlay(), Writes({KEYS[0]: None})
            found = shelves.reader.scan(Range(PREFIX, END), lambda: 1, overlay.view(buffer, fixed))
            assert list(found) == [[(b"b", b"1")]]
            assert bool(overlay.gaps) == fixed


def own_gap(shelves: Shelves) -> Buffer:
    """A buffer that hides the first two of three rows, and has come through them."""
    shelves.commit(dict.fromkeys(KEYS[:3], b"committed"))
    buffer = Buffer(shelves)
    buffer.step("write", dict.fromkeys(KEYS[:2]))
    assert list(buffer.scan(Range(PREFIX, END))) == [(b"c", b"committed")]
    assert buffer.overlay.gaps
    return buffer


def test_what_is_put_into_an_own_gap_is_shown() -> None:
    with open_shelves() as shelves:
        buffer = own_gap(shelves)
        buffer.step("write", {KEYS[0]: b"own"})
        assert list(buffer.scan(Range(PREFIX, END))) == [(b"a", b"own"), (b"c", b"committed")]


def test_what_was_deleted_in_a_savepoint_that_is_undone_is_shown_again() -> None:
    with open_shelves() as shelves:
        buffer = own_gap(shelves)
        buffer.step("undo", None)
        buffer.step("write", {KEYS[4]: b"own"})
        expected = [(key[len(PREFIX) :], b"committed") for key in KEYS[:3]]
        assert list(buffer.scan(Range(PREFIX, END))) == [*expected, (b"e", b"own")]
