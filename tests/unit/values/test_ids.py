"""The ``_id``: which values are valid, and that new ones sort by time and are unique."""

from __future__ import annotations

import enum
import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import InvalidDocument
from lowtide.values.ids import MAX_ID, IdSource, id_key, id_keys, new_id
from lowtide.values.ordering import encode

MILLISECOND = 1_000_000


@pytest.mark.parametrize("value", ["", "a", "\x00", 0, -1, 2**64, 10**300, b"", b"x", UUID(int=3), "é" * 98], ids=repr)
def test_strings_integers_bytes_and_uuids_may_be_one(value: Any) -> None:
    assert id_key(value) == encode(value)


ONE = st.integers() | st.text(max_size=5) | st.binary(max_size=5) | st.uuids()


@given(st.lists(st.integers() | st.just(2**53)) | st.lists(st.text(max_size=5)) | st.lists(ONE, max_size=3))
def test_the_keys_of_many_are_those_of_each(values: list[Any]) -> None:
    keys = id_keys(values)
    assert keys == list(map(id_key, values)) if keys is not None else len(set(map(type, values))) != 1


@pytest.mark.parametrize("bad", [None, True, 1.5, "\ud800", "x" * MAX_ID, b"x" * MAX_ID], ids=lambda bad: repr(bad)[:9])
def test_many_with_an_invalid_one_have_no_keys(bad: Any) -> None:
    assert id_keys([bad, bad]) is None
    assert id_keys([7, bad]) is None


class _Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize("value", [None, True, 1.5, [1], {"a": 1}, _Level.HIGH], ids=repr)
def test_other_values_are_refused_by_their_type(value: Any) -> None:
    with pytest.raises(InvalidDocument, match="an _id is a str, int, bytes or UUID, not") as caught:
        id_key(value)
    assert caught.value.path == "_id"
    assert type(value).__name__ in str(caught.value)


@pytest.mark.parametrize("value", ["x" * 198, b"x" * 195], ids=["text", "bytes"])
def test_one_that_is_too_long_is_refused(value: Any) -> None:
    assert len(id_key(value[:-1])) == MAX_ID
    with pytest.raises(InvalidDocument, match="201 bytes as a key; the limit is 200"):
        id_key(value)


def test_an_integer_that_is_too_long_is_refused_whatever_its_size() -> None:
    for value in (3**500, -(3**500), 7**9000):
        with pytest.raises(InvalidDocument, match="bytes as a key; the limit is 200"):
            id_key(value)
    assert id_key(10**9000) > id_key(10**8999), "which has few digits that are not zero"


def test_one_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidDocument, match="no Unicode text"):
        id_key("\ud800")


def ids(*moments: int, chance: bytes = b"\x55" * 10) -> list[UUID]:
    """What a source makes while its clock shows these milliseconds."""
    clock = iter(moments)
    source = IdSource(lambda: next(clock) * MILLISECOND, lambda count: chance[:count])
    return [source() for _ in moments]


def test_a_new_one_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    (made,) = ids(0x0192_3456_789A)
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert made.bytes[:6].hex() == "01923456789a"


@pytest.mark.parametrize("chance", [b"\x00" * 10, b"\xff" * 10, b"\x55" * 10], ids=["least", "greatest", "middle"])
@pytest.mark.parametrize(
    "moments",
    [(5, 6, 7), (5, 5, 5, 5), (5, 4, 3, 2), (9, 1, 9, 10), (0, 0), (2**48 - 2, 2**48 - 1)],
    ids=["forward", "still", "back", "back-and-forth", "epoch", "end"],
)
def test_new_ones_ascend_whatever_the_clock_does(moments: tuple[int, ...], chance: bytes) -> None:
    made = ids(*moments, chance=chance)
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert [id_key(each) for each in made] == sorted(id_key(each) for each in made)
    assert {each.version for each in made} == {7}
    assert {each.variant for each in made} == {"specified in RFC 4122"}


@given(st.lists(st.integers(0, 2**41), min_size=2, max_size=20))
def test_new_ones_ascend_for_any_clock(moments: list[int]) -> None:
    made = ids(*moments)
    assert made == sorted(set(made))


def test_time_comes_before_chance() -> None:
    (early,), (late,) = ids(5, chance=b"\xff" * 10), ids(6, chance=b"\x00" * 10)
    assert early < late


def test_threads_share_a_source_and_each_sees_its_own_ascend() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [new_id() for _ in range(500)], range(8)))
    assert len({each for some in made for each in some}) == 4000
    assert all(some == sorted(some) for some in made)


def _make(_: int) -> list[UUID]:
    return [new_id() for _ in range(500)]


def test_children_make_others_than_their_parent_and_each_other() -> None:
    """Also if the parent had made some before they were born."""
    before = [new_id() for _ in range(10)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        made = [each for some in pool.map(_make, range(4), chunksize=2) for each in some]
    made += before + _make(0)
    assert len(set(made)) == len(made)


def test_an_unrelated_process_makes_others() -> None:
    script = "from lowtide.values.ids import new_id; print(*(new_id() for _ in range(100)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    theirs, ours = [UUID(each) for each in run.stdout.split()], [new_id() for _ in range(100)]
    assert len({*theirs, *ours}) == 200


def test_new_ones_sort_with_uuids_of_others() -> None:
    made, other = new_id(), uuid4()
    assert (made < other) == (id_key(made) < id_key(other))
