"""What a filter tells a planner: the conditions that narrow an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
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
