"""What a serializable transaction has read: merged ranges against a naive model (C7)."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
from hypothesis import given

from lowtide.engine.transaction.read_set import RangeSet, ReadSet
from lowtide.engine.types import Range

# Few, so that ranges touch, overlap and contain each other.
keys = st.sampled_from([b"", b"a", b"a\x00", b"b", b"c", b"\xff"])


def _range(low: bytes, high: bytes | None, reverse: bool) -> Range:
    return Range(low, high if high is None else max(low, high), reverse)


ranges = st.builds(_range, keys, st.none() | keys, st.booleans())


def lies_in(key: bytes, wanted: Range) -> bool:
    return wanted.low <= key and (wanted.high is None or key < wanted.high)


@given(st.lists(ranges, max_size=8), st.lists(keys, max_size=8))
def test_a_key_is_found_iff_it_lies_in_one_of_the_ranges(given_ranges: list[Range], candidates: list[bytes]) -> None:
    merged = RangeSet(given_ranges)
    inside = [key for key in candidates if any(lies_in(key, each) for each in given_ranges)]
    found = merged.find(candidates)
    assert found == (inside[0] if inside else None)


@given(st.lists(ranges, max_size=8))
def test_merged_ranges_are_disjoint_in_order_and_not_empty(given_ranges: list[Range]) -> None:
    merged = RangeSet(given_ranges).ranges
    for each in merged:
        assert each.high is None or each.low < each.high
    for first, second in itertools.pairwise(merged):
        assert first.high is not None
        assert first.high < second.low, "ranges that touch are one"


@given(st.lists(ranges, max_size=8), keys)
def test_merging_neither_adds_nor_loses_a_key(given_ranges: list[Range], key: bytes) -> None:
    merged = RangeSet(given_ranges).ranges
    for probe in (key, key + b"\x00", b"", *(each.low for each in given_ranges)):
        assert any(lies_in(probe, each) for each in merged) == any(lies_in(probe, each) for each in given_ranges)


def test_nothing_is_found_in_no_ranges_or_in_empty_ones() -> None:
    assert RangeSet([]).find([b"a"]) is None
    assert RangeSet([Range(b"a", b"a"), Range(b"b", b"b", True)]).find([b"a", b"b", b""]) is None


def test_a_scan_that_has_not_come_to_anything_has_read_nothing() -> None:
    reads = ReadSet()
    reads.begin_range()
    assert reads.compiled().ranges == []


def test_each_scan_is_extended_on_its_own() -> None:
    reads = ReadSet()
    forward, backward = reads.begin_range(), reads.begin_range()
    wanted = Range(b"a", b"z")
    reads.extend_range(backward, Range(b"a", b"z", True).upto(b"x"))
    reads.extend_range(forward, wanted.upto(b"b"))
    reads.extend_range(forward, wanted.upto(b"c"))
    assert reads.compiled().ranges == [Range(b"a", b"c\x00"), Range(b"x", b"z")]
    reads.extend_range(forward, wanted)
    assert reads.compiled().ranges == [wanted]
