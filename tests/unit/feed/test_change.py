"""What a commit did to each key."""

from __future__ import annotations

import pytest

from lowtide.engine.log.frame import Commit, decode_payload, encode_frame, encode_payload, frame_at
from lowtide.feed.change import Change, changes_in

ONE, TWO = b"\x00\x00\x00\x01", b"\x00\x00\x00\x02"
NAMES = {ONE: "one", TWO: "two"}


def changes(commit: Commit, *, prefixes: set[bytes] | None = None, before: bool = False) -> list[Change]:
    return list(changes_in(commit, NAMES.__getitem__, prefixes, before))


def commit_of(writes: dict[bytes, bytes | None], old: list[bytes | None], *, keep: bool = False) -> Commit:
    return Commit(7, 12.5, writes, None, bytes(each is not None for each in old), old if keep else None)


def test_the_kinds_follow_from_what_was_there() -> None:
    commit = commit_of(
        {ONE + b"new": b"1", ONE + b"old": b"2", ONE + b"gone": None, ONE + b"never": None}, [None, b"x", b"y", None]
    )
    assert [(each.key, each.kind, each.value) for each in changes(commit)] == [
        (b"new", "insert", b"1"),
        (b"old", "update", b"2"),
        (b"gone", "delete", None),
    ]


def test_an_empty_value_is_a_value() -> None:
    commit = commit_of({ONE + b"key": b""}, [b""], keep=True)
    assert changes(commit, before=True) == [Change(7, 12.5, "one", b"key", "update", b"", b"")]


def test_a_change_tells_commit_time_keyspace_and_key() -> None:
    assert changes(commit_of({TWO + b"key": b"v"}, [None])) == [Change(7, 12.5, "two", b"key", "insert", b"v", None)]


def test_other_keyspaces_are_left_out_and_shift_nothing() -> None:
    before: list[bytes | None] = [b"first", None, b"third"]
    commit = commit_of({ONE + b"a": b"1", TWO + b"b": b"2", ONE + b"c": None}, before, keep=True)
    assert [(each.key, each.kind, each.before) for each in changes(commit, prefixes={TWO}, before=True)] == [
        (b"b", "insert", None)
    ]
    assert [(each.key, each.kind, each.before) for each in changes(commit, prefixes={ONE}, before=True)] == [
        (b"a", "update", b"first"),
        (b"c", "delete", b"third"),
    ]
    assert changes(commit, prefixes=set()) == []


def test_values_before_are_shown_only_if_they_were_asked_for() -> None:
    commit = commit_of({ONE + b"a": b"1"}, [b"old"], keep=True)
    assert [each.before for each in changes(commit)] == [None]
    assert [each.before for each in changes(commit, before=True)] == [b"old"]


def test_a_commit_of_format_1_does_not_tell_inserts_from_updates() -> None:
    commit = Commit(1, 1.0, {ONE + b"a": b"1", ONE + b"b": None})
    assert [(each.key, each.kind) for each in changes(commit)] == [(b"a", "update"), (b"b", "delete")]


@pytest.mark.parametrize("keep", [False, True])
def test_what_was_there_before_survives_the_log(keep: bool) -> None:
    writes: dict[bytes, bytes | None] = {ONE + b"b": b"1", ONE + b"a": None, TWO + b"a": b"3"}
    payload = encode_payload(3.5, writes, {"one": ONE}, [None, b"x", b""], keep)
    frame = frame_at(encode_frame(4, 3, 9, 11, payload)[0], 0, 11)
    assert frame is not None
    commit = decode_payload(frame)
    assert list(commit.writes.items()) == list(writes.items()), "in order: what was there before is told by place"
    assert commit == Commit(4, 3.5, writes, {"one": ONE}, b"\x00\x01\x01", [None, b"x", b""] if keep else None)
