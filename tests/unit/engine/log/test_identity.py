"""The identity of a commit is an optional part of its payload, and survives the owner's changes to the payload."""

from __future__ import annotations

import msgspec
import pytest

from lowtide.engine.log.frame import commit_of, encode_payload, identified, told_as_there

IDENTITY = bytes(range(16))
WRITES: dict[bytes, bytes | None] = {b"\x00\x00\x00\x01a": b"1", b"\x00\x00\x00\x01b": None}


@pytest.mark.parametrize("keep_before", [False, True])
def test_it_is_added_to_a_payload_and_changes_nothing_else(keep_before: bool) -> None:
    plain = encode_payload(1.5, WRITES, {"k": b"\x00\x00\x00\x01"}, [b"0", b"2"], keep_before)
    without, found = commit_of(plain), commit_of(identified(plain, IDENTITY))
    assert without.identity is None
    assert found.identity == IDENTITY
    assert msgspec.structs.replace(found, identity=None) == without


@pytest.mark.parametrize("keep_before", [False, True])
def test_it_stays_when_equal_puts_merge(keep_before: bool) -> None:
    payload = identified(encode_payload(1.5, WRITES, None, [None, None], keep_before), IDENTITY)
    found = commit_of(told_as_there(payload, [0], [b"1", None]))
    assert found.identity == IDENTITY
    assert found.existed == b"\x01\x00"
    assert found.before == ([b"1", None] if keep_before else None)


@pytest.mark.parametrize("payload", [b"", b"\x94", identified(b"\x94\x01\x02\x03\x04", IDENTITY)])
def test_what_is_no_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        commit_of(payload)
