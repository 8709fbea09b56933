"""Every document store gives the same answers. Each one that is installed is tested.

Operations that an adapter declares unsupported are not tried here, nor in the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from bench.collections import STORES, Adapter, Collection, Durability, Work, adapter, installed, open_loaded, versions
from bench.collections.grouping import grouped
from bench.collections.people import Document, make_email, make_id, make_people, make_person, make_rank

COUNT = 150
PEOPLE = list(make_people(0, COUNT, COUNT))

EVERY_STORE = pytest.mark.parametrize("name", installed())


def can(name: str, work: Work) -> bool:
    return work not in adapter(name).cannot


def durability_of(name: str) -> Durability:
    return "synced" if "synced" in adapter(name).settings else "unsynced"


def loaded(name: str, directory: Path) -> Collection:
    return open_loaded(name, directory, durability_of(name), COUNT)


def by_id(documents: Iterable[Document]) -> list[Document]:
    return sorted((dict(document) for document in documents), key=lambda document: str(document["_id"]))


def test_the_stores_of_the_standard_installation_are_there() -> None:
    assert {"lowtide", "sqlite3"} <= set(installed()) <= set(STORES)
    assert "lowtide" in versions()


def test_people_have_ranks_of_their_own_in_another_order_than_their_ids() -> None:
    ranks = [person["rank"] for person in PEOPLE]
    assert sorted(ranks) == list(range(COUNT))
    assert ranks != sorted(ranks)
    assert make_rank(COUNT + 5, COUNT) == COUNT + 5
    assert len({make_email(number) for number in range(COUNT)}) == COUNT


@EVERY_STORE
def test_documents_come_back_as_they_were_inserted(name: str, tmp_path: Path) -> None:
    with closing(loaded(name, tmp_path)) as store:
        for number in (0, 7, COUNT - 1):
            assert store.find_by_id(make_id(number)) == PEOPLE[number]
            if can(name, "find-index"):
                assert store.find_by_email(make_email(number)) == PEOPLE[number]
        assert store.find_by_id("nowhere" if name != "TinyDB" else make_id(999)) is None
        if can(name, "find-index"):
            assert store.find_by_email("nobody") is None
        store.insert_one(make_person(COUNT, COUNT))
        assert store.find_by_id(make_id(COUNT)) == make_person(COUNT, COUNT)


@EVERY_STORE
def test_a_range_has_those_within_it_in_the_order_of_the_index(name: str, tmp_path: Path) -> None:
    if not can(name, "range"):
        assert adapter(name).cannot["range"]
        return
    with closing(loaded(name, tmp_path)) as store:
        ranked = sorted(PEOPLE, key=lambda person: int(person["rank"]))
        assert [dict(each) for each in store.range_by_rank(20, 45)] == ranked[20:45]
        assert list(store.range_by_rank(COUNT, COUNT + 9)) == []


@EVERY_STORE
def test_an_increment_changes_one_field_of_one_document(name: str, tmp_path: Path) -> None:
    with closing(loaded(name, tmp_path)) as store:
        for _ in range(3):
            store.increment(make_id(11))
        assert store.find_by_id(make_id(11)) == PEOPLE[11] | {"revision": 3}
        assert store.find_by_id(make_id(12)) == PEOPLE[12]
        if can(name, "find-index"):
            assert store.find_by_email(make_email(11)) == PEOPLE[11] | {"revision": 3}


@EVERY_STORE
def test_a_scan_and_a_group_meet_all_documents(name: str, tmp_path: Path) -> None:
    if not can(name, "scan"):
        assert adapter(name).cannot["scan"]
        return
    with closing(loaded(name, tmp_path)) as store:
        assert by_id(store.scan()) == PEOPLE
        store.insert_many(list(make_people(COUNT, COUNT + 20, COUNT)))
        everybody = [*PEOPLE, *make_people(COUNT, COUNT + 20, COUNT)]
        assert by_id(store.scan()) == everybody
        assert by_id(store.group_by_city()) == by_id(grouped(everybody))


@EVERY_STORE
def test_what_was_inserted_is_there_after_reopening(name: str, tmp_path: Path) -> None:
    with closing(loaded(name, tmp_path)) as store:
        store.settle()
        store.insert_one(make_person(COUNT, COUNT))
        store.increment(make_id(1))
    durability = durability_of(name)
    with closing(adapter(name).open(tmp_path / f"{name}-{durability}", durability)) as store:
        assert store.find_by_id(make_id(COUNT)) == make_person(COUNT, COUNT)
        assert store.find_by_id(make_id(1)) == PEOPLE[1] | {"revision": 1}


@EVERY_STORE
def test_an_adapter_says_what_has_to_be_known(name: str) -> None:
    chosen: Adapter = adapter(name)
    assert chosen.settings
    assert chosen.remark.endswith(".")
    assert all(chosen.cannot.values())
    if "synced" not in chosen.settings:
        assert chosen.weaker
