"""Keyspaces by name and number: numbers are final, never reused, and the log knows a name before the base needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.engine.base.codec import encode_keyspace
from lowtide.engine.transaction.catalog import Catalog
from lowtide.errors import UsageError
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together


def test_a_name_gets_its_number_when_it_is_first_used_and_keeps_it() -> None:
    catalog = Catalog([])
    assert [catalog.prefix_of(name) for name in ("a", "b", "a")] == [b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\1"]


def test_numbers_go_on_behind_the_highest_that_was_saved() -> None:
    catalog = Catalog([("old", b"\0\0\0\7"), ("older", b"\0\0\0\3")])
    assert catalog.prefix_of("old") == b"\0\0\0\7"
    assert catalog.prefix_of("new") == b"\0\0\0\x08"


def test_only_what_the_log_does_not_know_is_carried_along() -> None:
    catalog = Catalog([("old", b"\0\0\0\1")])
    new = catalog.prefix_of("new")
    unused = catalog.prefix_of("unused")
    writes: dict[bytes, bytes | None] = {b"\0\0\0\1x": b"", new + b"x": b"", new + b"y": None}
    assert catalog.names_to_log(writes) == {"new": new}
    catalog.logged({"new": new})
    assert catalog.names_to_log(writes) is None
    assert catalog.names() == ["new", "old"]
    assert catalog.names_to_log({unused + b"x": b""}) == {"unused": unused}


def test_a_full_key_is_described_by_name_and_the_users_key() -> None:
    catalog = Catalog([("fruit", b"\0\0\0\1")])
    assert catalog.describe(b"\0\0\0\1apple") == ("fruit", b"apple")
    assert catalog.describe(b"\0\0\0\1") == ("fruit", b"")
    assert catalog.describe(b"\0\0\0\2apple") == ("?", b"apple")


@pytest.mark.parametrize("name", ["", None, b"bytes", 7, ["a"], "x" * 201, "ä" * 101, "\ud800"])
def test_what_is_no_name_is_refused(store: lowtide.Store, name: str) -> None:
    with pytest.raises(UsageError):
        store.keyspace(name)
    with store.transaction() as tx, pytest.raises(UsageError):
        tx.keyspace(name)
    with store.snapshot() as snapshot, pytest.raises(UsageError):
        snapshot.keyspace(name)
    assert store.keyspaces() == []


@pytest.mark.parametrize("name", ["x" * 200, "ä" * 100, " ", "a/b\n\0", "ключ"])
def test_any_other_string_is_a_name_that_survives(tmp_path: Path, name: str) -> None:
    for _ in range(2):
        with lowtide.open(tmp_path / "store", durability="relaxed") as store:
            store.keyspace(name).put(b"x", b"1")
            assert store.keyspaces() == [name]
            assert store.keyspace(name).get(b"x") == b"1"


def test_a_keyspace_exists_once_something_was_committed_to_it(store: lowtide.Store) -> None:
    store.keyspace("read").get(b"x")
    list(store.keyspace("scanned").scan())
    tx = store.begin()
    tx.keyspace("rolled back").put(b"x", b"")
    tx.rollback()
    assert store.keyspaces() == []
    with store.transaction() as tx:
        tx.keyspace("kept").put(b"x", b"")
        assert store.keyspaces() == []
    assert store.keyspaces() == ["kept"]


def test_many_threads_that_name_it_first_agree_on_its_number(store: lowtide.Store) -> None:
    def use(number: int) -> None:
        for turn in range(20):
            store.keyspace(f"k{turn}").put(b"%d" % number, b"")

    run_together(*(lambda number=number: use(number) for number in range(4)))
    assert len(store.keyspaces()) == 20
    for turn in range(20):
        assert [key for key, _ in store.keyspace(f"k{turn}").scan()] == [b"0", b"1", b"2", b"3"]


def test_names_of_refused_and_of_first_commits_survive_a_reopen(open_store: OpenStore) -> None:
    store = open_store()
    first, second = store.begin(), store.begin()
    for tx in (first, second):
        tx.keyspace("new").put(b"x", b"1")
    second.keyspace("only in what was refused").put(b"x", b"1")
    first.commit()
    with pytest.raises(lowtide.ConflictError, match="keyspace 'new'"):
        second.commit()
    store.keyspace("later").put(b"y", b"2")
    store.close()
    again = open_store()
    assert again.keyspaces() == ["later", "new"]
    assert again.keyspace("later").get(b"y") == b"2"
    assert again.keyspace("new").get(b"x") == b"1"
    assert list(again.keyspace("only in what was refused").scan()) == []


def test_numbers_of_joined_processes_are_reserved_before_they_are_given_out() -> None:
    reserved: list[int] = []
    catalog = Catalog([("a", encode_keyspace(7))], reserve=reserved.append)
    assert catalog.assign("b") == encode_keyspace(8)
    assert reserved == [7 + 64]
    assert [catalog.assign(name) for name in ("b", "c")] == [encode_keyspace(8), encode_keyspace(9)]
    assert len(reserved) == 1
    assert Catalog([("a", encode_keyspace(7))], reserved=reserved[0]).prefix_of("d") == encode_keyspace(72)


def test_a_name_is_adopted_unless_the_keyspace_has_another_number() -> None:
    catalog = Catalog([("a", encode_keyspace(1))], reserved=64)
    catalog.adopt({"b": encode_keyspace(9)})
    assert catalog.prefix_of("b") == encode_keyspace(9)
    assert catalog.names_to_log({encode_keyspace(9) + b"x": b""}) == {"b": encode_keyspace(9)}
    for names in ({"a": encode_keyspace(2)}, {"c": encode_keyspace(1)}):
        with pytest.raises(lowtide.TransientError):
            catalog.adopt(names)


def test_a_joined_process_asks_the_owner_once_and_learns_from_the_log() -> None:
    asked: list[str] = []

    def assign(name: str) -> bytes:
        asked.append(name)
        return encode_keyspace(len(asked))

    catalog = Catalog([], fixed=True, assign=assign)
    prefix = catalog.prefix_of("a")
    assert catalog.prefix_of("a") == prefix
    assert catalog.names_to_log({prefix + b"x": b""}) == {"a": prefix}
    catalog.learn([("a", prefix)])
    assert catalog.names_to_log({prefix + b"x": b""}) is None
    assert asked == ["a"]
    catalog.forget({"a": prefix})
    assert catalog.prefix_of("a") == encode_keyspace(2)
