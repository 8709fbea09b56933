"""Solutions as tables: one column of ids per variable, and the operators of the algebra that need nothing else.

A table is immutable: operators share columns and never write into one. The id 0 stands for "not bound".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rdflib.term import BNode, Identifier

from lowtide.errors import UsageError

Column: TypeAlias = NDArray[np.uint64]
Index: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]

UNBOUND: Final = 0
"""Not an id of any term."""

MOST_ROWS: Final = 1 << 27
"""Solutions that one join may have: a gigabyte for each variable."""

_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(29))


class Solutions:
    """Rows of solutions. ``columns`` maps each variable (a blank node of a query is one) to its ids."""

    def __init__(self, columns: Mapping[Identifier, Column], size: int) -> None:
        self.columns = columns
        self.size = size
        self.blank: list[dict[Identifier, BNode]] | None = None
        """Of each row, the blank nodes that BNODE has made for it, by label; kept as long as only columns are added."""

    def __repr__(self) -> str:
        return f"Solutions({', '.join(self.columns)}; {self.size} rows)"

    @cached_property
    def partial(self) -> frozenset[Identifier]:
        """The variables that are not bound in every row."""
        return frozenset(name for name, column in self.columns.items() if not column.all())

    def take(self, rows: Index) -> Solutions:
        """The rows at these places, in this order."""
        return Solutions({name: column[rows] for name, column in self.columns.items()}, len(rows))

    def where(self, mask: Mask) -> Solutions:
        """The rows that the mask marks."""
        if mask.all():
            return self
        return self.take(np.flatnonzero(mask))

    def part(self, start: int, stop: int) -> Solutions:
        """The rows from ``start`` up to ``stop``."""
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        return Solutions(columns, max(0, min(stop, self.size) - start))

    def only(self, names: Iterable[Identifier]) -> Solutions:
        """The table with these of its columns."""
        return Solutions({name: self.columns[name] for name in names if name in self.columns}, self.size)

    def plus(self, name: Identifier, column: Column) -> Solutions:
        """The table with one column more, or another one."""
        table = Solutions({**self.columns, name: column}, self.size)
        table.blank = self.blank
        return table

    def column(self, name: Identifier) -> Column:
        """The ids of a variable; all unbound if the table does not have it."""
        found = self.columns.get(name)
        return np.zeros(self.size, np.uint64) if found is None else found


def unit() -> Solutions:
    """One row without variables: what an empty group pattern gives, and the neutral element of joins."""
    return Solutions({}, 1)


def empty(names: Iterable[Identifier] = ()) -> Solutions:
    """No rows."""
    return Solutions({name: np.zeros(0, np.uint64) for name in names}, 0)


def concatenated(tables: Sequence[Solutions]) -> Solutions:
    """The rows of all tables, in order; a variable that a table does not have is not bound in its rows."""
    if len(tables) == 1:
        return tables[0]
    names = dict.fromkeys(name for table in tables for name in table.columns)
    columns = {name: np.concatenate([table.column(name) for table in tables]) for name in names}
    return Solutions(columns, sum(table.size for table in tables))


def mixed(columns: Sequence[Column]) -> Column:
    """One number for each row. Equal rows have equal numbers; unequal rows nearly always have not."""
    first, second, shift = _MIX
    key = columns[0]
    for column in columns[1:]:
        key = (key ^ (key >> shift)) * first
        key = (key ^ (key >> shift)) + column * second
    return key


def groups(columns: Sequence[Column], size: int) -> tuple[Index, Index]:
    """Number the distinct rows. The first array has the place of the first row of each, in order of appearance; the
    second the number of each row."""
    if not columns:
        return np.zeros(min(size, 1), np.intp), np.zeros(size, np.intp)
    first, inverse = _numbered(mixed(columns))
    if len(columns) > 1 and any((column[first][inverse] != column).any() for column in columns):
        key = np.zeros(size, np.uint64)
        for column in columns:  # two rows have the same mix: number them column by column
            codes = np.unique(column, return_inverse=True)[1].astype(np.uint64)
            key = np.unique(key * np.uint64(size) + codes, return_inverse=True)[1].astype(np.uint64)
        first, inverse = _numbered(key)
    return first, inverse


def _numbered(key: Column) -> tuple[Index, Index]:
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]


def distinct(table: Solutions) -> Solutions:
    """The table without repeated rows; the first of equal rows stays at its place."""
    if table.size < 2:
        return table
    first, _ = groups(list(table.columns.values()), table.size)
    return table if len(first) == table.size else table.take(first)


def pairs(left: Sequence[Column], right: Sequence[Column]) -> tuple[Index, Index]:
    """The places (i, j) where row i of ``left`` equals row j of ``right``, ordered by i, then j."""
    keys, others = mixed(left), mixed(right)
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    low = np.searchsorted(ordered, keys, "left")
    counts = np.searchsorted(ordered, keys, "right") - low
    check_rows(int(counts.sum()))
    i = np.repeat(np.arange(len(keys)), counts)
    before = np.cumsum(counts) - counts
    j = order[np.arange(len(i)) + np.repeat(low - before, counts)]
    if len(left) > 1:
        same = np.ones(len(i), np.bool_)
        for a, b in zip(left, right, strict=True):
            same &= a[i] == b[j]
        if not same.all():
            i, j = i[same], j[same]
    return i, j


def check_rows(rows: int) -> None:
    """Refuse a join that does not fit into memory."""
    if rows > MOST_ROWS:
        raise UsageError(
            f"a join of this query has {rows} solutions, more than the {MOST_ROWS} that are held at once; join its "
            "patterns by a variable, or limit it"
        )


def _everything(left: int, right: int) -> tuple[Index, Index]:
    check_rows(left * right)
    return np.repeat(np.arange(left), right), np.tile(np.arange(right), left)


def _by_bound(table: Solutions, names: Sequence[Identifier]) -> list[tuple[frozenset[Identifier], Index]]:
    """The rows of a table by which of ``names`` they bind."""
    if not names:
        return [(frozenset(), np.arange(table.size))]
    code = np.zeros(table.size, np.int64)
    for bit, name in enumerate(names):
        code |= (table.columns[name] != 0).astype(np.int64) << bit
    return [
        (frozenset(name for bit, name in enumerate(names) if value >> bit & 1), np.flatnonzero(code == value))
        for value in np.unique(code).tolist()
    ]


def compatible(left: Solutions, right: Solutions, *, sharing: bool = False) -> tuple[Index, Index]:
    """The places (i, j) of rows that agree in every variable that both bind. With ``sharing`` there must be one."""
    shared = [name for name in left.columns if name in right.columns]
    loose = [name for name in shared if name in left.partial or name in right.partial]
    if not loose:
        if not shared:
            return _everything(0, 0) if sharing else _everything(left.size, right.size)
        return pairs([left.columns[name] for name in shared], [right.columns[name] for name in shared])
    firm = [name for name in shared if name not in loose]
    found = []
    for here, rows in _by_bound(left, loose):
        for there, others in _by_bound(right, loose):
            names = firm + [name for name in loose if name in here and name in there]
            if names:
                i, j = pairs([left.columns[n][rows] for n in names], [right.columns[n][others] for n in names])
            elif sharing:
                continue
            else:
                i, j = _everything(len(rows), len(others))
            found.append((rows[i], others[j]))
    if not found:
        return _everything(0, 0)
    i = np.concatenate([rows for rows, _ in found])
    j = np.concatenate([rows for _, rows in found])
    order = np.lexsort((j, i))
    return i[order], j[order]


def merged(left: Solutions, right: Solutions, i: Index, j: Index) -> Solutions:
    """The rows i of ``left``, each with what row j of ``right`` binds besides."""
    columns: dict[Identifier, Column] = {}
    for name, column in left.columns.items():
        values = column[i]
        if name in right.columns and name in left.partial:
            values = np.where(values == 0, right.columns[name][j], values)
        columns[name] = values
    for name, column in right.columns.items():
        if name not in columns:
            columns[name] = column[j]
    return Solutions(columns, len(i))


def joined(left: Solutions, right: Solutions) -> Solutions:
    """The join of two tables, in the order of the left one."""
    if left.size == 1 and not left.columns:
        return right
    if right.size == 1 and not right.columns:
        return left
    return merged(left, right, *compatible(left, right))


def without(left: Solutions, right: Solutions) -> Solutions:
    """MINUS: the rows of ``left`` for which no row of ``right`` shares a bound variable and agrees in all of them."""
    if not left.size or not right.size:
        return left
    shared = [name for name in left.columns if name in right.columns]
    right = distinct(right.only(shared))
    i, _ = compatible(left, right, sharing=True)
    mask = np.ones(left.size, np.bool_)
    mask[i] = False
    return left.where(mask)
