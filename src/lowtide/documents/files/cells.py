"""Converts between values and the text cells of a table. Pure functions.

A cell is read as a number, a boolean, an object or an array if writing that value gives the same cell. Any
other cell is a string. So nothing is lost: ``007``, ``1.50`` and ``+1`` stay strings. A column's type can
also be given explicitly.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from lowtide.errors import UsageError
from lowtide.values.extended import dumps, loads, written

_INTEGER: Final = re.compile(r"-?[1-9][0-9]{0,3999}|0")
_FLOAT: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


def cell_of(value: Any) -> str:
    """Return the text of a value: Extended JSON for objects and arrays, empty for null."""
    kind = type(value)
    if kind is str:
        return str(value)
    if value is None:
        return ""
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    if kind is datetime:
        return written(value)
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is dict or kind is list:
        return dumps(value).decode()
    return str(value)


def inferred(cell: str) -> Any:
    """Infer the value of a cell.

    >>> [inferred(cell) for cell in ("12", "007", "2.5", "true", '["a"]', "12 apples")]
    [12, '007', 2.5, True, ['a'], '12 apples']
    """
    first = cell[:1]
    if first in "-0123456789":
        if _INTEGER.fullmatch(cell):
            return int(cell)
        if _FLOAT.fullmatch(cell) and repr(number := float(cell)) == cell:
            return number
    elif first in "{[":
        try:
            value = loads(cell)
        except (ValueError, RecursionError):
            return cell
        return value if type(value) in (dict, list) and cell_of(value) == cell else cell
    elif cell in ("true", "false"):
        return cell == "true"
    return cell


def _boolean(cell: str) -> bool:
    return {"true": True, "false": False, "1": True, "0": False}[cell.lower()]


def _float(cell: str) -> float:
    number = float(cell)
    if number != number:
        raise ValueError
    return number


KINDS: Final[dict[str, Callable[[str], Any]]] = {
    "auto": inferred,
    "str": str,
    "int": int,
    "float": _float,
    "decimal": Decimal,
    "bool": _boolean,
    "datetime": datetime.fromisoformat,
    "uuid": UUID,
    "bytes": lambda cell: base64.b64decode(cell, validate=True),
    "json": loads,
}
"""The types that a column can be read as."""

FAULTS: Final = (ValueError, KeyError, InvalidOperation, binascii.Error, RecursionError)
"""Exceptions that reading a cell raises if it does not have the column's type."""


def kinds_of(text: str) -> dict[str, str]:
    """Parse column types such as ``age=int,code=str,*=auto``. ``*`` is for all other columns."""
    kinds = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        column, equals, kind = part.rpartition("=")
        if not equals or not column or kind not in KINDS:
            raise UsageError(f"{part!r} is not a column type; write column=type, with {', '.join(KINDS)}")
        kinds[column.strip()] = kind
    return kinds
