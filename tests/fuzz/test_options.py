"""Options of any type and value: all accepted, or refused with a UsageError before anything is changed."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import lowtide
from lowtide.errors import Error, UsageError
from lowtide.options import Options, parse_options
from tests.fuzz.guard import ours
from tests.fuzz.profile import pure, whole_store
from tests.fuzz.stores import MEMORY
from tests.unit.engine.base.bases import temporary_directory

SEAMS = {"disk", "clock"}
"""Given by tests only: what is no disk is not looked for."""

NAMES = [each.name for each in dataclasses.fields(Options) if each.name not in SEAMS]
_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 200_000),
    st.sampled_from([1 << 62, 1 << 63, 1 << 64, 10**400, math.nan, math.inf, -math.inf, 1e9, 1e10, Decimal("NaN")]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["full", "relaxed", "exact", "watermark", "thread", "process", "auto", "FULL"]),
    st.binary(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.builds(object),
)


@pure
@given(st.dictionaries(st.sampled_from([*NAMES, "colour", ""]), _values, max_size=3))
def test_options_of_any_value_are_accepted_or_refused(given_options: dict[str, Any]) -> None:
    found = ours(1000, lambda: parse_options(given_options))
    assert isinstance(found, Options | UsageError)
    if isinstance(found, Options):
        for name, value in given_options.items():
            expected = {"int": int, "float": (int, float), "str": str, "bool": bool, "str | os.PathLike[str]": str}
            kind = str(next(each.type for each in dataclasses.fields(Options) if each.name == name))
            optional = value is None and kind.endswith(" | None")
            assert optional or isinstance(value, expected[kind.removesuffix(" | None")])  # type: ignore[arg-type]
            assert not (isinstance(value, float) and math.isnan(value))


_small: dict[str, st.SearchStrategy[Any]] = {
    "segment_bytes": st.integers(4096, 20_000),
    "cache_rows": st.integers(1, 10),
    "record": st.none(),
    "map_size": st.one_of(st.integers(128 << 10, 1 << 22), st.sampled_from([1 << 30, 1 << 48, 1 << 62])),
}


@whole_store
@given(st.fixed_dictionaries({}, optional={name: _small.get(name, _values) for name in NAMES}))
def test_a_store_opened_with_options_of_any_value_works_or_is_refused(chosen: dict[str, Any]) -> None:
    with temporary_directory() as directory:

        def use() -> int:
            with lowtide.open(directory / "store", **{**chosen, "read_only": False}) as store:
                store.keyspace("fruit").put(b"apple", b"red")
                store.checkpoint()
                return store.collect_garbage()

        found = ours(1000, use, more=MEMORY)
        assert not isinstance(found, Error) or (isinstance(found, UsageError) and not any(directory.iterdir()))


@pure
@given(st.one_of(_values, st.text(max_size=300), st.text(st.characters(), max_size=20)))
def test_a_path_of_anything_is_opened_or_refused(path: object) -> None:
    with temporary_directory() as directory:
        place = path
        if isinstance(path, str):
            place = str(directory / path.replace("/", "").replace("..", ""))

        def use() -> None:
            lowtide.open(place, read_only=True)  # type: ignore[arg-type]

        assert isinstance(ours(1000, use, more=MEMORY), Error)


def test_a_path_object_that_gives_no_text_is_refused() -> None:
    class Bytes:
        def __fspath__(self) -> bytes:
            return b"store"

    for wrong in (Bytes(), Path("a\0b"), Path("n" * 5000)):
        assert isinstance(ours(0, lambda each=wrong: lowtide.open(each), more=MEMORY), UsageError)  # type: ignore[misc]
