"""The conditions of a filter that a planner can use to narrow an index scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowtide.values.values import equal


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A condition: one of ``values_at(document, path)`` satisfies the operator, or for ``$exists: False`` none exists.

    ==========================  ==========================================================================
    operator                    operand
    ==========================  ==========================================================================
    ``$eq``                     the value; None also means missing
    ``$in``                     a tuple of values, which may be empty
    ``$gt $gte $lt $lte``       the value; only values of its type satisfy it
    ``$exists``                 True or False
    ``$regex``                  text that the string begins with
    ``$elemMatch``              a tuple of conditions with the path ``""``: one element satisfies them all
    ==========================  ==========================================================================

    Several conditions on one path may be satisfied by different elements of an array. So separate bounds
    may be combined into one range only if the field is never an array. Bounds inside one ``$elemMatch``
    may always be combined.
    """

    path: str
    operator: str
    operand: Any

    def __eq__(self, other: object) -> bool:
        """Whether both are the same condition. 1 and 1.0 are the same operand; 1 and True are not, unlike in Python."""
        return (
            isinstance(other, Condition)
            and self.path == other.path
            and self.operator == other.operator
            and _same(self.operand, other.operand)
        )

    def __hash__(self) -> int:
        return hash((self.path, self.operator))


def _same(first: Any, second: Any) -> bool:
    """Whether two operands are the same. The operands of ``$in`` and ``$elemMatch`` are tuples."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, tuple | Condition) or isinstance(second, tuple | Condition):
        return bool(first == second)
    return equal(first, second)
