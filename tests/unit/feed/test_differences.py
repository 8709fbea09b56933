"""The values of a key before and after a load determine what the load did to it."""

from __future__ import annotations

import pytest

from lowtide.feed.change import Kind
from lowtide.feed.differences import (
    Difference,
    Swap,
    changes_of,
    decode_difference,
    difference,
    encode_difference,
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
