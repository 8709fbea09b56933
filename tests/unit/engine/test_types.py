"""Full keys, their prefixes and their limits."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.engine import types
from lowtide.engine.base import codec
from lowtide.errors import UsageError

keys = st.binary(max_size=6) | st.text("\x00a\xff", max_size=5).map(lambda text: text.encode("latin-1"))


@given(keys, keys, st.booleans())
def test_exactly_the_keys_with_a_prefix_lie_between_it_and_its_end(prefix: bytes, key: bytes, inside: bool) -> None:
    key = prefix + key if inside else key
    end = types.after_prefix(prefix)
    within = prefix <= key and (end is None or key < end)
    assert within == key.startswith(prefix)


@pytest.mark.parametrize("prefix", [b"", b"\xff", b"\xff\xff\xff"])
def test_a_prefix_of_highest_bytes_only_has_no_end(prefix: bytes) -> None:
    assert types.after_prefix(prefix) is None


def test_a_prefix_that_ends_in_the_highest_byte_carries_over() -> None:
    assert types.after_prefix(b"a\xff\xff") == b"b"


def test_the_longest_key_is_taken_and_a_longer_one_refused() -> None:
    prefix = codec.encode_keyspace(1)
    types.check_key(prefix + b"k" * types.MAX_KEY)
    with pytest.raises(UsageError, match=r"at most 491 bytes long, this one has 492: b'kkk"):
        types.check_key(prefix + b"k" * (types.MAX_KEY + 1))


@pytest.mark.parametrize("value", [b"plain", bytearray(b"plain"), memoryview(b"plain")])
def test_a_value_becomes_bytes_of_its_own(value: object) -> None:
    assert types.check_value(value) == b"plain"
    assert type(types.check_value(value)) is bytes


@pytest.mark.parametrize("value", ["text", 7, None, [b"x"]])
def test_what_is_not_bytes_is_refused_as_a_value(value: object) -> None:
    with pytest.raises(UsageError, match=rf"not {type(value).__name__}; use delete\(\)"):
        types.check_value(value)


def test_a_value_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "MAX_VALUE", 3)
    assert types.check_value(b"123") == b"123"
    with pytest.raises(UsageError, match="at most 3 bytes long, this one has 4"):
        types.check_value(b"1234")


def test_a_bad_key_is_named_in_the_error() -> None:
    assert "not int: 7" in str(types.bad_key(7))
