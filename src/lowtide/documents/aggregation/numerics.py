"""Arithmetic on int, float and Decimal. An int with a float gives a float; a Decimal with any gives a Decimal.

A float is converted to the Decimal of its shortest ``repr``. Decimals are computed with 34 digits.
"""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

from lowtide.documents.aggregation.context import BadOperand, described

NUMBERS: Final = frozenset((int, float, Decimal))
"""The numeric types. A bool is not a number."""

DECIMALS: Final = Context(prec=34, rounding=ROUND_HALF_EVEN)
MAX_BITS: Final = 1 << 16
"""Maximum size of an integer that ``power`` returns."""

Number = int | float | Decimal


def number(value: object) -> Any:
    """Return ``value`` if it is a number, else raise BadOperand."""
    if type(value) not in NUMBERS:
        raise BadOperand(f"expected numbers, got {described(value)}")
    return value


def decimal(value: Number) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)


def checked(value: Number) -> Number:
    """Return ``value``, or raise BadOperand if it is NaN, which cannot be stored."""
    if value != value:
        raise BadOperand("the result is not a number")
    return value


def add(first: Any, second: Any) -> Number:
    if type(first) is Decimal or type(second) is Decimal:
        return DECIMALS.add(decimal(first), decimal(second))
    return checked(first + second)


def subtract(first: Any, second: Any) -> Number:
    if type(first) is Decimal or type(second) is Decimal:
        return DECIMALS.subtract(decimal(first), decimal(second))
    return checked(first - second)


def multiply(first: Any, second: Any) -> Number:
    if type(first) is Decimal or type(second) is Decimal:
        return DECIMALS.multiply(decimal(first), decimal(second))
    return checked(first * second)


def divide(first: Any, second: Any) -> Number:
    """Divide: a Decimal if either operand is one, else a float, even for two integers."""
    if second == 0:
        raise BadOperand("division by zero")
    if type(first) is Decimal or type(second) is Decimal:
        return DECIMALS.divide(decimal(first), decimal(second))
    return checked(first / second)


def remainder(first: Any, second: Any) -> Number:
    """Return the remainder, with the sign of ``first``."""
    if second == 0:
        raise BadOperand("division by zero")
    if type(first) is Decimal or type(second) is Decimal:
        return DECIMALS.remainder(decimal(first), decimal(second))
    if type(first) is int and type(second) is int:
        rest = abs(first) % abs(second)
        return -rest if first < 0 else rest
    if math.isinf(first):
        raise BadOperand("the result is not a number")
    return math.fmod(first, second)


def power(base: Any, exponent: Any) -> Number:
    if base == 0 and exponent < 0:
        raise BadOperand("zero has no negative powers")
    if type(base) is Decimal or type(exponent) is Decimal:
        return DECIMALS.power(decimal(base), decimal(exponent))
    if type(base) is int and type(exponent) is int and exponent >= 0:
        if base.bit_length() * exponent > MAX_BITS and base not in (-1, 0, 1):
            raise BadOperand(f"the result has more than {MAX_BITS:,} bits")
        whole: int = base**exponent
        return whole
    found = float(base) ** float(exponent)
    if isinstance(found, complex):
        raise BadOperand("a negative number has no fractional powers")
    return checked(found)


def rounded(value: Any, places: int, *, truncate: bool) -> Number:
    """Round to ``places`` decimal places; negative means before the decimal point. Ties go to even."""
    rounding = ROUND_DOWN if truncate else ROUND_HALF_EVEN
    kind: Any = type(value)
    exact = decimal(value)
    if not exact.is_finite() or (kind is int and places >= 0):
        return kind(value)  # type: ignore[no-any-return]
    digits = max(exact.adjusted() + places + 3, 1)
    quantized = exact.quantize(Decimal(1).scaleb(-places), rounding, Context(prec=digits))
    return kind(quantized)  # type: ignore[no-any-return]


def floored(value: Any) -> Number:
    return _whole(value, math.floor)


def ceiled(value: Any) -> Number:
    return _whole(value, math.ceil)


def _whole(value: Any, function: Any) -> Number:
    """Apply a rounding function and keep the type of ``value``."""
    if type(value) is int or not math.isfinite(value):
        return value  # type: ignore[no-any-return]
    return type(value)(function(value))  # type: ignore[no-any-return]


def root(value: Any) -> Number:
    if value < 0:
        raise BadOperand("a negative number has no square root")
    return DECIMALS.sqrt(value) if type(value) is Decimal else math.sqrt(value)


def exponential(value: Any) -> Number:
    return DECIMALS.exp(value) if type(value) is Decimal else math.exp(value)


def logarithm(value: Any, base: Any = None) -> Number:
    """Return the logarithm, natural unless a base is given."""
    if value <= 0 or (base is not None and (base <= 0 or base == 1)):
        raise BadOperand("a logarithm requires a positive number, and a positive base other than 1")
    if type(value) is Decimal or type(base) is Decimal:
        found = DECIMALS.ln(decimal(value))
        return found if base is None else DECIMALS.divide(found, DECIMALS.ln(decimal(base)))
    return math.log(value) if base is None else math.log(value, base)


def decimal_logarithm(value: Any) -> Number:
    if value <= 0:
        raise BadOperand("a logarithm requires a positive number")
    return DECIMALS.log10(value) if type(value) is Decimal else math.log10(value)
