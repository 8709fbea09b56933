"""The build says what it is, and what plain Python gives for free holds in a compiled one as well."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import lowtide
from lowtide.engine.versions.layers import VersionStore
from lowtide.system.build import BUILD
from tests.compiled import LEFT_OUT
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
    several words, of which a new tuple is made whenever it is read."""
    versions = VersionStore(0)
    before = versions.view
    assert versions.view is before
    versions.freeze(1)
    assert versions.view is versions.view
    assert versions.view is not before
    assert before[1] is None


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
