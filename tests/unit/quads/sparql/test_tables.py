"""The table operators that work on numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import Variable
from rdflib.term import Identifier

from lowtide.errors import UsageError
from lowtide.quads.sparql import tables
from lowtide.quads.sparql.tables import Column, Solutions

A, B, C = (Variable(name) for name in "abc")
rows = st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=8)


def table(names: list[Variable], content: list[tuple[int, ...]]) -> Solutions:
    columns: dict[Identifier, Column] = {
        name: np.array([row[place] for row in content], np.uint64) for place, name in enumerate(names)
    }
    return Solutions(columns, len(content))


def mappings(found: Solutions) -> list[dict[str, int]]:
    """The rows as dicts of what is bound."""
    columns = {str(name): column.tolist() for name, column in found.columns.items()}
    return [{name: column[row] for name, column in columns.items() if column[row]} for row in range(found.size)]


def agree(left: dict[str, int], right: dict[str, int]) -> bool:
    return all(right[name] == value for name, value in left.items() if name in right)


def ordered(found: list[dict[str, int]]) -> list[list[tuple[str, int]]]:
    return sorted(sorted(each.items()) for each in found)


@given(rows, rows)
def test_a_join_is_every_pair_of_rows_that_agree(first: list[tuple[int, ...]], second: list[tuple[int, ...]]) -> None:
    left, right = table([A, B], first), table([B, C], second)
    wanted = [{**a, **b} for a in mappings(left) for b in mappings(right) if agree(a, b)]
    assert ordered(mappings(tables.joined(left, right))) == ordered(wanted)


@given(rows, rows)
def test_minus_leaves_out_rows_that_share_a_variable_and_agree(
    first: list[tuple[int, ...]], second: list[tuple[int, ...]]
) -> None:
    left, right = table([A, B], first), table([B, C], second)
    wanted = [a for a in mappings(left) if not any(agree(a, b) and a.keys() & b.keys() for b in mappings(right))]
    assert mappings(tables.without(left, right)) == wanted


@given(rows)
def test_distinct_keeps_the_first_of_equal_rows(content: list[tuple[int, ...]]) -> None:
    assert mappings(tables.distinct(table([A, B, C], content))) == mappings(
        table([A, B, C], list(dict.fromkeys(content)))
    )


@given(rows)
def test_rows_are_numbered_exactly_when_their_mixes_collide(content: list[tuple[int, ...]]) -> None:
    columns = list(table([A, B, C], content).columns.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "mixed", lambda columns: np.zeros(len(columns[0]), np.uint64))
        first, numbers = tables.groups(columns, len(content))
    distinct = list(dict.fromkeys(content))
    assert [content[place] for place in first] == distinct
    assert numbers.tolist() == [distinct.index(row) for row in content]


def test_a_join_without_shared_variables_is_every_pair() -> None:
    assert tables.joined(table([A], [(1,), (2,)]), table([B], [(3,), (4,)])).size == 4


def test_a_union_does_not_bind_what_one_side_lacks() -> None:
    found = tables.concatenated([table([A], [(1,)]), table([B], [(2,)])])
    assert mappings(found) == [{"a": 1}, {"b": 2}]
    assert found.partial == {A, B}


def test_a_join_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 3)
    with pytest.raises(UsageError, match="a join of this query has 4 solutions"):
        tables.joined(table([A], [(1,), (2,)]), table([B], [(3,), (4,)]))
    with pytest.raises(UsageError, match="a join of this query has 4 solutions"):
        tables.joined(table([A], [(1,), (1,)]), table([A, B], [(1, 3), (1, 4)]))
