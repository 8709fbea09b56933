"""Offsets as they are in a checkpoint."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import lowtide
from lowtide.spark.offsets import BEGIN, INITIAL, Offset, parse

START = Offset(
    store="ab", what="collection 'users'", keyspace="documents/users", stream="t", consumer="c", since=7, version=7
)


def through_json(offset: Offset) -> Offset | None:
    return parse(json.loads(json.dumps(offset.plain())))


@given(st.binary(max_size=20))
def test_a_key_survives_the_checkpoint_and_is_told_from_the_beginning(key: bytes) -> None:
    begun = START.with_snapshot("documents/users~1", 9, 12.5)
    offset = through_json(begun.after_key(key))
    assert offset is not None
    assert offset.last_key == key
    assert offset != begun


def test_the_beginning_can_be_told_from_every_later_offset() -> None:
    begun = START.with_snapshot("documents/users", 9, 12.5)
    assert (begun.since, begun.version, begun.taken, begun.after) == (9, 9, 12_500_000, BEGIN)
    for later in (begun, begun.after_key(b"x"), begun.after_key(None), begun.after_key(None).at_version(30)):
        found = through_json(later)
        assert found == later
        assert found.origin() == begun
    assert START.at_version(40).origin() == START


def test_the_initial_offset_says_nothing() -> None:
    assert parse(dict(INITIAL)) is None
    assert parse(json.loads(json.dumps(INITIAL))) is None


@pytest.mark.parametrize("change", [{"version": "7"}, {"after": "=zz"}, {"store": None}, {"since": 1.5}])
def test_what_is_no_offset_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(lowtide.UsageError, match="not from a lowtide stream"):
        parse({**START.plain(), **change})
