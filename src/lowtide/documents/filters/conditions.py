"""What a filter tells a planner: the conditions that narrow an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowtide.values.values import equal


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One of ``values_at(document, path)`` satisfies the operator; for ``$exists`` with False, none is there.

    ==========================  ==========================================================================
    operator                    operand
    ==========================  ==========================================================================
    ``$eq``                     the value; None means missing, too
    ``$in``                     a tuple of values, which may be empty
    ``$gt $gte $lt $lte``       the value; only values of its kind satisfy it
    ``$exists``                 True or False
    ``$regex``                  text that the string begins with
    ``$elemMatch``              a tuple of conditions with the path ``""``: one element satisfies them all
    ==========================  ==========================================================================

    Several conditions on one path may be satisfied by different elements of an array: bounds that are conditions of
    their own may only be joined to one range where the field is never an array, those inside ``$elemMatch`` always.
    """

    path: str
    operator: str
    operand: Any

    def __eq__(self, other: object) -> bool:
        """Whether they ask for the same: 1 and 1.0 are, 1 and True are not, though Python takes them for equal."""
        return (
            isinstance(other, Condition)
            and self.path == other.path
            and self.operator == other.operator
            and _same(self.operand, other.operand)
        )

    def __hash__(self) -> int:
        return hash((self.path, self.operator))


def _same(first: Any, second: Any) -> bool:
    """Whether two operands are the same; those of ``$in`` and ``$elemMatch`` are tuples."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, tuple | Condition) or isinstance(second, tuple | Condition):
        return bool(first == second)
    return equal(first, second)
