"""Sums and products for $inc and $mul.

Two ints give an int of any size. An int and a float give a float. A Decimal with any number gives an exact
Decimal; a float is converted by its ``repr``, so 0.1 is exactly a tenth. A result that cannot be exact, or
is not a number, raises Refusal.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from lowtide.documents.updates.tree import Refusal
from lowtide.errors import shown

DIGITS: Final = 10_000
"""Maximum number of digits of a Decimal result."""

NUMBERS: Final = frozenset((int, float, Decimal))

_EXACT: Final = decimal.Context(
    prec=DIGITS,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow],
)


def added(first: Any, second: Any) -> Any:
    """Return the sum of two numbers. Raises Refusal if it is not a number or cannot be exact."""
    if type(first) is int and type(second) is int:
        return first + second
    return _computed(first, second, "sum", _EXACT.add, float.__add__)


def multiplied(first: Any, second: Any) -> Any:
    """Return the product of two numbers. Raises Refusal as ``added`` does."""
    if type(first) is int and type(second) is int:
        return first * second
    return _computed(first, second, "product", _EXACT.multiply, float.__mul__)


def _computed(
    first: Any,
    second: Any,
    what: str,
    exact: Callable[[Decimal, Decimal], Decimal],
    binary: Callable[[float, float], float],
) -> Any:
    try:
        if Decimal in (type(first), type(second)):
            return exact(_as_decimal(first), _as_decimal(second))
        result = binary(float(first), float(second))
    except OverflowError:
        raise Refusal(f"the {what} of {shown(first):.60} and {shown(second):.60} is too large for a float") from None
    except decimal.DecimalException:
        raise Refusal(
            f"the {what} of {shown(first):.60} and {shown(second):.60} is not an exact Decimal of {DIGITS:,} digits"
        ) from None
    if result != result:
        raise Refusal(f"the {what} of {first!r} and {second!r} is NaN, which cannot be stored")
    return result


def _as_decimal(number: Any) -> Decimal:
    return Decimal(repr(number)) if type(number) is float else Decimal(number)
