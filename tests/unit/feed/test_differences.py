"""The values of a key before and after a load determine what the load did to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine import Range
from lowtide.feed import differences
from lowtide.feed.change import Kind
from lowtide.feed.differences import (
    Difference,
    Swap,
    changes_of,
    decode_difference,
    difference,
    encode_blocks,
    encode_difference,
    read_differences,
)
from lowtide.feed.feed import without_images
from lowtide.feed.ranges import ChangeRows, Preimages, add_difference

SWAP = Swap(7, 1.5, "users", "documents/users", "documents/users~1", "documents/users~1~changes")


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize(
    ("before", "value", "kind"),
    [
        (None, b"new", "insert"),
        (b"old", b"new", "update"),
        (b"old", None, "delete"),
        (b"same", b"same", None),
        (None, None, None),
    ],
)
def test_the_kind_follows_from_both_values(
    before: bytes | None, value: bytes | None, kind: Kind | None, images: bool
) -> None:
    found = difference(before, value, images)
    assert (found.kind, found.value) == (kind, value)
    assert found.before == (before if images and kind in ("update", "delete") else None)
    assert decode_difference(encode_difference(found)) == found


def test_it_is_shown_as_changes_of_what_was_asked_for() -> None:
    rows = [
        (b"a", difference(None, b"1", True)),
        (b"b", difference(b"0", b"1", True)),
        (b"c", difference(b"1", b"1", True)),
        (b"d", difference(b"0", None, True)),
    ]
    found = list(changes_of(SWAP, "asked", rows, True, without_images))
    assert [(each.ts, each.time, each.keyspace) for each in found] == [(7, 1.5, "asked")] * 3
    assert [(each.key, each.kind, each.value, each.before, each.replaced) for each in found] == [
        (b"a", "insert", b"1", None, False),
        (b"b", "update", b"1", b"0", True),
        (b"d", "delete", None, b"0", False),
    ]
    assert [each.before for each in changes_of(SWAP, "asked", rows, False, without_images)] == [None] * 3


@pytest.mark.parametrize(
    ("preimages", "kinds"),
    [
        (Preimages.AUTO, [("update_preimage", b"0"), ("update_postimage", b"1"), ("delete", b"0")]),
        (Preimages.REQUIRE, [("update_preimage", b"0"), ("update_postimage", b"1"), ("delete", b"0")]),
        (Preimages.NONE, [("update_postimage", b"1"), ("delete", None)]),
    ],
)
def test_its_rows_have_the_values_before_that_are_asked_for(
    preimages: Preimages, kinds: list[tuple[str, bytes | None]]
) -> None:
    rows = ChangeRows()
    for key, each in (
        (b"b", difference(b"0", b"1", True)),
        (b"c", Difference(None)),
        (b"d", difference(b"0", None, True)),
    ):
        add_difference(rows, SWAP, key, each, preimages)
    assert list(zip(rows.kinds, rows.values, strict=True)) == kinds
    assert set(rows.commits) == {7}


KEYS = st.binary(max_size=2)


@given(
    st.lists(st.sets(KEYS, min_size=1), max_size=3),
    KEYS,
    st.none() | KEYS,
    st.sampled_from([1, 3, 128]),
    st.integers(0, 9),
)
def test_any_range_of_keys_is_read_wherever_blocks_begin(
    parts: list[set[bytes]], low: bytes, high: bytes | None, most: int, alone: int
) -> None:
    """Keys in blocks of up to ``most``, but for some, which have rows of their own."""
    prefix, rows, keys = b"\x00\x00\x00\x07", dict[bytes, bytes](), sorted({key for part in parts for key in part})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(differences, "_BLOCK_KEYS", most)
        patch.setattr(differences, "_STEP_BYTES", 20)
        rows.update((key, encode_difference(Difference(b"v" + key))) for key in keys[:alone])
        for part in (keys[alone : alone + 2], keys[alone + 2 :]):
            if part:
                rows.update(zip(*encode_blocks(part, [b"v" + key for key in part]), strict=True))

        def scan(wanted: Range) -> Iterator[tuple[bytes, bytes]]:
            for key in sorted(rows, reverse=wanted.reverse):
                if wanted.covers(prefix + key):
                    yield key, rows[key]

        found = list(read_differences(scan, prefix, low, high))
    assert found == [(key, Difference(b"v" + key)) for key in keys if low <= key and (high is None or key < high)]
