"""The rule of gaps against a brute-force model: the value of every key at every commit."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given

from lowtide.engine.types import Range
from lowtide.engine.versions.gaps import MOST_KEYS, Gap, Gaps, bounded, covers, cut, noted, past, without
from tests.property.profile import thorough

KEYS = [bytes([letter]) for letter in b"abcdefgh"]
END = b"i"
edges = st.sampled_from([*KEYS, END])
keys = st.sampled_from(KEYS)
snapshots = st.sets(st.integers(0, 20))
steps = st.lists(
    st.tuples(st.just("put"), keys, keys)
    | st.tuples(st.just("delete"), keys, keys)
    | st.tuples(st.just("note"), edges, edges),
    max_size=30,
)


class Model:
    """What was visible at each commit, and since when each key is known to be in a gap."""

    def __init__(self, live: set[int]) -> None:
        self.states: list[frozenset[bytes]] = [frozenset()]
        self.live = live
        self.gaps: Gaps = ()
        self.known: dict[bytes, int] = {}

    def apart(self, low: int, high: int) -> bool:
        return any(low <= ts < high for ts in self.live)

    def step(self, verb: str, one: bytes, other: bytes, back: int) -> None:
        if verb == "put":
            self.states.append(self.states[-1] | {one})
            self.gaps = cut(self.gaps, one, one + b"\x00")
            self.known.pop(one, None)
        elif verb == "delete":
            self.states.append(self.states[-1] - {one})
        elif one < other:
            self.note(one, other, max(0, len(self.states) - 1 - back))

    def note(self, low: bytes, high: bytes, since: int) -> None:
        """As a scan at ``since`` does that finds nothing in the range, and no put after itself."""
        inside = [key for key in KEYS if low <= key < high]
        if any(key in state for state in self.states[since:] for key in inside):
            return
        self.gaps = noted(self.gaps, Gap(low, high, since), self.apart)
        for key in inside:
            self.known[key] = min(since, self.known.get(key, since))

    def left_out(self, ts: int) -> set[bytes]:
        return {key for key in KEYS for gap in self.gaps if gap.low <= key < gap.high and gap.since <= ts}


@thorough
@given(script=steps, backs=st.lists(st.integers(0, 4), min_size=30, max_size=30), live=snapshots)
def test_a_gap_is_true_of_every_snapshot_that_it_serves_and_serves_every_one_that_lives(
    script: list[tuple[str, bytes, bytes]], backs: list[int], live: set[int]
) -> None:
    model = Model(live)
    for (verb, one, other), back in zip(script, backs, strict=False):
        model.step(verb, one, other, back)
        now = len(model.states) - 1
        for ts in range(now + 1):
            assert not model.left_out(ts) & model.states[ts], (ts, model.gaps)
        for ts in {each for each in live if each <= now} | {now}:
            assert model.left_out(ts) == {key for key, since in model.known.items() if since <= ts}, (ts, model.gaps)
        for left, right in pairwise(model.gaps):
            assert left.high <= right.low
            assert left.high < right.low or model.apart(*sorted((left.since, right.since)))
        assert all(each.low < each.high for each in model.gaps)
        for key in [*KEYS, b"", END]:
            assert covers(model.gaps, key) == (cut(model.gaps, key, key + b"\x00") is not model.gaps)


@thorough
@given(
    script=steps, low=edges, high=edges, reverse=st.booleans(), ts=st.integers(0, 30), live=st.sets(st.integers(0, 20))
)
def test_a_scan_begins_at_the_first_key_that_no_gap_has(
    script: list[tuple[str, bytes, bytes]], low: bytes, high: bytes, reverse: bool, ts: int, live: set[int]
) -> None:
    model = Model(live)
    for verb, one, other in script:
        model.step(verb, one, other, 0)
    wanted = Range(low, max(low, high), reverse)
    rest = past(model.gaps, wanted, ts)
    inside = [key for key in KEYS if wanted.covers(key)]
    left = [key for key in inside if rest is not None and rest.covers(key)]
    hidden = model.left_out(ts)
    expected = list(reversed(inside)) if reverse else inside
    while expected and expected[0] in hidden:
        expected.pop(0)
    assert left == sorted(expected)
    assert rest is None or rest.reverse == reverse


def test_a_range_without_an_end_is_left_as_it_is() -> None:
    gaps = (Gap(b"a", b"c", 1),)
    assert past(gaps, Range(b"a", None), 5) == Range(b"a", None)


def test_an_older_snapshot_does_not_use_a_gap() -> None:
    gaps = (Gap(b"a", b"c", 3),)
    assert past(gaps, Range(b"a", b"d"), 2) == Range(b"a", b"d")
    assert past(gaps, Range(b"a", b"d"), 3) == Range(b"c", b"d")
    assert past(gaps, Range(b"a", b"c", True), 2) == Range(b"a", b"c", True)
    assert past(gaps, Range(b"a", b"c", True), 3) is None


def test_many_puts_cut_all_between_the_first_and_the_last() -> None:
    gaps = (Gap(b"a", b"z", 1),)
    many = [b"m%03d" % number for number in range(MOST_KEYS + 1)]
    assert without(gaps, many) == (Gap(b"a", b"m000", 1), Gap(many[-1] + b"\x00", b"z", 1))
    assert len(without(gaps, many[:3])) == 4


def test_what_a_cut_does_not_touch_is_the_same_object() -> None:
    gaps = (Gap(b"b", b"c", 1), Gap(b"e", b"f", 1))
    assert cut(gaps, b"c", b"e") is gaps


def test_of_too_many_the_one_that_grew_last_is_kept_longest() -> None:
    gaps = (Gap(b"a", b"b", 4), Gap(b"c", b"d", 2), Gap(b"e", b"f", 9))
    assert bounded(gaps, 2) == (gaps[0], gaps[2])
    assert bounded(gaps, 3) is gaps
