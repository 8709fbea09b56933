"""The build reports whether it is compiled, and what plain Python guarantees holds in a compiled build as well."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.engine.transaction.recording import RecordingTransaction
from lowtide.engine.versions.layers import VersionStore
from lowtide.system.build import BUILD
from tests.compiled import LEFT_OUT
from tests.conftest import OpenStore
from tests.support.parts import parts_of

ROOT = Path(__file__).resolve().parents[2]
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
MODULES: list[str] = HOOK["custom"]["modules"]


def test_either_all_modules_of_the_list_are_compiled_or_none_is(store: lowtide.Store) -> None:
    files = [str(importlib.import_module(name).__file__) for name in MODULES]
    assert {file.endswith(".py") for file in files} == {BUILD == "pure Python"}
    assert store.stats().build == BUILD


def test_what_is_left_out_is_there_and_has_a_reason() -> None:
    for node, reason in LEFT_OUT.items():
        file, _, test = node.partition("::")
        assert (ROOT / file).is_file(), node
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text() if test else True, node
        assert reason


def test_the_view_of_the_layers_is_one_object() -> None:
    """A reader takes it without a lock, so it must be replaced at once. A compiled attribute that is a plain tuple has
    several words, and a new tuple is made of them whenever it is read."""
    versions = VersionStore(0)
    before = versions.view
    assert versions.view is before
    versions.freeze(1)
    assert versions.view is versions.view
    assert versions.view is not before
    assert before[1] is None


def test_a_recorded_scan_that_is_dropped_is_noted(open_store: OpenStore, tmp_path: Path) -> None:
    """By a generator that cleans up, which must not be compiled."""
    store = open_store(record=tmp_path / "recorded")
    store.keyspace("k").put_many({b"a": b"1", b"b": b"2"})
    tx = store.begin()
    scan = tx.keyspace("k").scan()
    assert next(scan) == (b"a", b"1")
    recorded = tx._tx
    assert isinstance(recorded, RecordingTransaction)
    del scan
    assert len(recorded._seen) == 1
    tx.rollback()


def test_a_registration_is_reused_only_if_nothing_else_refers_to_it(store: lowtide.Store) -> None:
    registry = parts_of(store).registry
    with store.transaction() as tx:
        tx.keyspace("k").put(b"a", b"1")
    assert len(registry.spare) == 1
    tx = store.begin()
    held = tx._tx._registration
    tx.rollback()
    assert held not in registry.spare
    del held, tx
    with store.transaction():
        pass
    assert len(registry.spare) == 1


class _Number(int):
    """An int of a subclass. Compiled, ``int(value)`` of one is that object again."""


def test_numbers_of_a_subclass_are_stored_as_plain_ones(store: lowtide.Store) -> None:
    for number in (7, 2**80):
        store["c"].insert_one({"_id": f"{number}", "n": _Number(number), "all": [_Number(number)]})
        found = store["c"].find_one({"n": number})
        assert found is not None
        assert (type(found["n"]), type(found["all"][0])) == (int, int)
    assert store["c"].insert_one({"_id": _Number(8)}).inserted_id == 8
    assert type(store["c"].find().sort("_id").to_list()[0]["_id"]) is int


def test_arguments_of_a_wrong_type_are_refused_by_lowtides_own_errors(store: lowtide.Store) -> None:
    """What users call is interpreted: a compiled function would raise TypeError before its first line."""
    wrong: Any = "x"
    with pytest.raises(lowtide.UsageError, match="timeout must be"):
        store.run(lambda _: None, timeout=wrong)
    with pytest.raises(lowtide.OperationFailure, match="skip"):
        store["c"].find_one({}, skip=wrong)
    with pytest.raises(lowtide.OperationFailure, match="requires a list"):
        store["c"].insert_many(wrong)
    assert store["c"].update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=1).upserted_id == 1  # type: ignore[arg-type]
