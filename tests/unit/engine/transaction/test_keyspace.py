"""A keyspace: an ordered map of bytes to bytes, its ranges, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import lowtide
from lowtide.engine import types
from lowtide.engine.transaction.keyspace import ReadKeyspace
from lowtide.errors import UsageError

keys = st.binary(max_size=3)


class Spread:
    """A keyspace that has its entries in the base, in chains, in an open transaction, and others beside it."""

    def __init__(self, store: lowtide.Store, entries: list[bytes]) -> None:
        for neighbour in ("before", "k", "behind"):
            for key in entries[::3]:
                store.keyspace(neighbour).put(key, neighbour.encode())
            store.checkpoint()
            for key in entries[1::3]:
                store.keyspace(neighbour).put(key, neighbour.encode())
        self.tx = store.begin()
        for key in entries[2::3]:
            self.tx.keyspace("k").put(key, b"k")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entries=st.lists(keys, unique=True, max_size=9),
    start=st.none() | keys,
    stop=st.none() | keys,
    prefix=st.none() | keys,
    reverse=st.booleans(),
)
def test_a_scan_is_bounded_by_start_stop_and_prefix(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[bytes],
    start: bytes | None,
    stop: bytes | None,
    prefix: bytes | None,
    reverse: bool,
) -> None:
    with lowtide.open(tmp_path_factory.mktemp("store"), durability="relaxed") as store:
        spread = Spread(store, entries)
        found = list(spread.tx.keyspace("k").scan(start, stop, prefix=prefix, reverse=reverse))
        spread.tx.rollback()
    wanted = [
        (key, b"k")
        for key in entries
        if (start is None or key >= start)
        and (stop is None or key < stop)
        and (prefix is None or key.startswith(prefix))
    ]
    assert found == sorted(wanted, reverse=reverse)


def test_prefixes_that_end_in_the_highest_byte_have_an_end_as_well(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    for key in (b"\xfe", b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\xff"):
        keyspace.put(key, b"")
    store.keyspace("next").put(b"", b"")
    assert [key for key, _ in keyspace.scan(prefix=b"\xff\xff")] == [b"\xff\xff", b"\xff\xff\xff"]
    assert [key for key, _ in keyspace.scan(prefix=b"\xff", reverse=True)][-1] == b"\xff"
    assert [key for key, _ in keyspace.scan(prefix=b"")] == [key for key, _ in keyspace.scan()]
    assert len(list(keyspace.scan(reverse=True))) == 5


def test_the_empty_key_and_the_empty_value_are_as_good_as_any(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    keyspace.put(b"", b"")
    assert keyspace.get(b"") == b""
    store.checkpoint()
    assert keyspace.get(b"") == b""
    assert list(keyspace.scan()) == [(b"", b"")]
    keyspace.delete(b"")
    assert keyspace.get(b"") is None


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_longest_key_goes_everywhere_a_key_can_go(store: lowtide.Store, checkpointed: bool) -> None:
    """Through chain, log, base and history, which puts most before it."""
    key = b"x" * types.MAX_KEY
    store.keyspace("k").put(key, b"0")
    snapshot = store.snapshot()
    if checkpointed:
        store.checkpoint()
    store.keyspace("k").put(key, b"1")
    store.checkpoint()
    assert snapshot.keyspace("k").get(key) == b"0"
    assert list(snapshot.keyspace("k").scan(reverse=True)) == [(key, b"0")]
    assert list(store.keyspace("k").scan(key)) == [(key, b"1")]
    store.keyspace("k").delete(key)
    store.checkpoint()
    snapshot.close()
    assert store.keyspace("k").get(key) is None


def keyspaces(store: lowtide.Store) -> list[lowtide.Keyspace]:
    """Every kind that can be written to."""
    return [store.keyspace("k"), *(store.begin(level).keyspace("k") for level in lowtide.Isolation)]


@pytest.mark.parametrize("key", ["text", 7, None, 1.5, ["list"], {b"set"}, object()])
def test_a_key_that_is_not_bytes_is_refused(store: lowtide.Store, key: bytes) -> None:
    calls: list[Callable[[lowtide.Keyspace], object]] = [
        lambda keyspace: keyspace.get(key),
        lambda keyspace: keyspace.put(key, b""),
        lambda keyspace: keyspace.delete(key),
    ]
    for keyspace in keyspaces(store):
        for call in calls:
            with pytest.raises(UsageError, match=f"keys are bytes, not {type(key).__name__}"):
                call(keyspace)
    with store.snapshot() as snapshot, pytest.raises(UsageError, match="keys are bytes"):
        snapshot.keyspace("k").get(key)
    assert store.stats().last_commit == 0


@pytest.mark.parametrize("bound", ["text", 7, 1.5, bytearray(b"x")])
@pytest.mark.parametrize("which", ["start", "stop", "prefix"])
def test_a_bound_that_is_not_bytes_is_refused(store: lowtide.Store, which: str, bound: bytes) -> None:
    for keyspace in keyspaces(store):
        with pytest.raises(UsageError, match=f"{which} must be bytes"):
            keyspace.scan(**{which: bound})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["text", 7, None, 1.5, ["list"]])
def test_a_value_that_is_not_bytes_is_refused(store: lowtide.Store, value: bytes) -> None:
    for keyspace in keyspaces(store):
        with pytest.raises(UsageError, match="values are bytes"):
            keyspace.put(b"x", value)
    assert store.stats().last_commit == 0


def test_a_key_that_is_too_long_is_refused(store: lowtide.Store) -> None:
    key = b"x" * (types.MAX_KEY + 1)
    for keyspace in keyspaces(store):
        with pytest.raises(UsageError, match=f"a key may be at most {types.MAX_KEY} bytes long"):
            keyspace.put(key, b"")
        with pytest.raises(UsageError, match=f"a key may be at most {types.MAX_KEY} bytes long"):
            keyspace.delete(key)


@pytest.mark.parametrize("length", [types.MAX_KEY + 1, 508, 600, 5000])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_key_that_is_too_long_to_exist_is_not_found(store: lowtide.Store, length: int, checkpointed: bool) -> None:
    """Also where LMDB is asked, which knows no keys of that length."""
    store.keyspace("k").put(b"x", b"1")
    if checkpointed:
        store.checkpoint()
    for keyspace in keyspaces(store):
        assert keyspace.get(b"x" * length) is None
        assert list(keyspace.scan(b"x" * length)) == []
        assert list(keyspace.scan(None, b"x" * length, reverse=True)) == [(b"x", b"1")]
        assert list(keyspace.scan(prefix=b"x" * length, reverse=True)) == []


class Huge(bytes):
    """A value of a length that no test could afford."""

    def __len__(self) -> int:
        return types.MAX_VALUE + 1


def test_a_value_that_is_too_large_is_refused(store: lowtide.Store) -> None:
    for keyspace in keyspaces(store):
        with pytest.raises(UsageError, match=f"a value may be at most {types.MAX_VALUE} bytes long"):
            keyspace.put(b"x", Huge())


@pytest.mark.parametrize("make", [bytearray, memoryview, type("Derived", (bytes,), {})])
def test_what_is_like_bytes_is_taken_as_it_is_now(store: lowtide.Store, make: Callable[[bytes], bytes]) -> None:
    """A copy: changing it afterwards must change nothing that was written."""
    for number, keyspace in enumerate(keyspaces(store)):
        key, value = bytearray(b"key-%d" % number), make(b"value")
        keyspace.put(make(bytes(key)), value)
        if isinstance(value, bytearray):
            value[:] = b"other"
        found = keyspace.get(bytes(key))
        assert found == b"value"
        assert type(found) is bytes
        assert keyspace.get(make(bytes(key))) == b"value"


def test_a_large_value_is_kept_whole(store: lowtide.Store) -> None:
    value = bytes(range(256)) * 1024
    store.keyspace("k").put(b"x", value)
    assert store.keyspace("k").get(b"x") == value
    store.checkpoint()
    assert store.keyspace("k").get(b"x") == value
    assert list(store.keyspace("k").scan()) == [(b"x", value)]


def test_a_keyspace_says_its_name(store: lowtide.Store) -> None:
    with store.snapshot() as snapshot:
        keyspace: ReadKeyspace = snapshot.keyspace("fruit")
        assert (keyspace.name, repr(keyspace)) == ("fruit", "<keyspace 'fruit'>")
        assert not hasattr(keyspace, "put")
    assert store.keyspace("fruit").name == "fruit"
