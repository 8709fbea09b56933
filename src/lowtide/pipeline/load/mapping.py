"""Mappings: which column of a source becomes which field of a document.

A mapping is a dict with an entry for each field. The key is the field, ``address.city`` for one inside an object:

==================================  ====================================================================
``"name": "Full name"``             the column ``Full name``, as it is
``{"from": "age", "cast": "int"}``  the column, converted; see ``KINDS`` of ``documents/files/cells.py``
``{"constant": "crm"}``             the same value in every document
``{"sql": "price * n"}``            an expression that Spark evaluates; ``cast`` may follow
``"*": True``                       all columns that no other entry takes, under their own names
==================================  ====================================================================

Without a mapping every column becomes the field of its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from lowtide.documents.files.cells import FAULTS, KINDS, cell_of
from lowtide.errors import InvalidDocument, UsageError, shown
from lowtide.values.codec import clean

REST: Final = "*"
"""The key of a mapping that lets all other columns through."""
ID: Final = "_id"
_WORDS: Final = ("from", "constant", "sql", "cast")
_SOURCES: Final = _WORDS[:3]


class CastFailed(Exception):
    """A value cannot be converted."""


@dataclass(frozen=True, slots=True)
class MappedField:
    """One entry of a mapping: the field at ``path``, and where its value comes from."""

    path: tuple[str, ...]
    column: str | None = None
    sql: str | None = None
    constant: Any = None
    cast: str | None = None

    @property
    def field(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """A checked mapping. ``rest`` says that columns which no target takes keep their names."""

    targets: tuple[MappedField, ...] = ()
    rest: bool = True

    @property
    def expressions(self) -> tuple[MappedField, ...]:
        """The targets that Spark evaluates."""
        return tuple(each for each in self.targets if each.sql is not None)

    @property
    def taken(self) -> frozenset[str]:
        """The columns that ``rest`` leaves out: those that a target takes as a whole, or whose name it has."""
        columns = {each.column for each in self.targets if each.column is not None}
        return frozenset(columns | {each.path[0] for each in self.targets})

    def check_columns(self, columns: Collection[str]) -> None:
        """Refuse columns that the source does not have, and a mapping without an ``_id``."""
        known = ", ".join(map(repr, columns))
        for each in self.targets:
            if each.column is not None and each.column not in columns and each.column.split(".")[0] not in columns:
                raise UsageError(
                    f"mapping: field {each.field!r} comes from the column {each.column!r}, which the source does "
                    f"not have; it has {known}"
                )
        if self.rest:
            for name in set(columns) - self.taken:
                _check_part(name, name)
        if not self.has_id(columns):
            raise UsageError(
                f"mapping: no entry defines the _id, and there is no column '_id'; add one, such as "
                f"{{'_id': 'column'}}. The source has {known}"
            )

    def has_id(self, columns: Collection[str]) -> bool:
        """Whether documents get an ``_id``."""
        return any(each.path == (ID,) for each in self.targets) or (self.rest and ID in columns)


def parse_mapping(mapping: Mapping[str, Any] | None) -> FieldMapping:
    """Check a mapping. Raises UsageError, which names the entry and says what is wrong with it.

    >>> parse_mapping({"_id": "key", "address.city": {"from": "town", "cast": "str"}}).targets[1].path
    ('address', 'city')
    """
    if mapping is None:
        return FieldMapping()
    if not isinstance(mapping, Mapping) or not mapping:
        raise UsageError(f"a mapping is a dict with an entry for each field, not {shown(mapping)}")
    rest = False
    targets = []
    for field, entry in mapping.items():
        if field == REST:
            if entry is not True:
                raise UsageError(f"mapping: '*' lets all other columns through, and is True, not {shown(entry)}")
            rest = True
            continue
        targets.append(_target(field, entry))
    _check_overlap(targets)
    return FieldMapping(tuple(targets), rest)


def _target(field: object, entry: object) -> MappedField:
    if not isinstance(field, str) or not field:
        raise UsageError(f"mapping: a field is named by a string, not {shown(field)}")
    path = tuple(field.split("."))
    for part in path:
        _check_part(part, field)
    if path[0] == ID and len(path) > 1:
        raise UsageError(f"mapping: {field!r} would be inside the _id, which is not an object")
    if isinstance(entry, str):
        entry = {"from": entry}
    if not isinstance(entry, Mapping):
        raise UsageError(
            f"mapping: field {field!r} must be the name of a column, or a dict with from, constant or sql, "
            f"not {shown(entry)}"
        )
    if unknown := [word for word in entry if word not in _WORDS]:
        raise UsageError(f"mapping: field {field!r} has {unknown[0]!r}; there are {', '.join(_WORDS)}")
    sources = [word for word in _SOURCES if word in entry]
    if len(sources) != 1:
        raise UsageError(f"mapping: field {field!r} needs one of from, constant and sql, not {len(sources)}")
    return _checked(
        MappedField(path, entry.get("from"), entry.get("sql"), entry.get("constant"), entry.get("cast")), entry
    )


def _checked(target: MappedField, entry: Mapping[str, Any]) -> MappedField:
    for word, text in (("from", target.column), ("sql", target.sql)):
        if word in entry and (not isinstance(text, str) or not text.strip()):
            raise UsageError(f"mapping: {word!r} of field {target.field!r} is a text that is not empty, not {text!r}")
    if target.cast is not None and target.cast not in KINDS:
        raise UsageError(
            f"mapping: field {target.field!r} cannot be cast to {target.cast!r}; there are {', '.join(KINDS)}"
        )
    if "constant" in entry:
        if target.cast is not None:
            raise UsageError(f"mapping: field {target.field!r} is a constant; give its final value, without cast")
        if target.path == (ID,):
            raise UsageError("mapping: the _id cannot be a constant: all documents would have the same")
        try:
            clean(target.constant, target.field)
        except InvalidDocument as error:
            raise UsageError(f"mapping: the constant of field {target.field!r}: {error}") from error
    return target


def _check_part(part: str, field: str) -> None:
    if not part or part.startswith("$"):
        raise UsageError(
            f"mapping: {field!r} cannot be the name of a field: a name is not empty and does not begin with $; "
            "give it another name in the mapping"
        )


def _check_overlap(targets: list[MappedField]) -> None:
    """Refuse a field that is to be an object and a value."""
    paths = {each.path for each in targets}
    for each in targets:
        for length in range(1, len(each.path)):
            if each.path[:length] in paths:
                raise UsageError(
                    f"mapping: {'.'.join(each.path[:length])!r} cannot be a value, since {each.field!r} is inside it"
                )


# Casts


def cast_of(kind: str) -> Callable[[Any], Any]:
    """Return what converts a value to a kind. It raises CastFailed.

    >>> cast_of("int")("12"), cast_of("int")(12.0), cast_of("str")(7)
    (12, 12, '7')
    """
    of_text, of_value = KINDS[kind], _OF_VALUES.get(kind, _same)

    def cast(value: Any) -> Any:
        try:
            return of_text(value) if type(value) is str else of_value(value)
        except (*FAULTS, TypeError, OverflowError) as error:
            raise CastFailed(f"{shown(value)} is not of type {kind}") from error

    return cast


def _same(value: Any) -> Any:
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int | float | Decimal) or value != (whole := int(value)):
        raise TypeError
    return whole


def _number(value: Any) -> float:
    if not isinstance(value, int | float | Decimal):
        raise TypeError
    number = float(value)
    if math.isinf(number) and abs(value) != math.inf:
        raise OverflowError
    return number


def _decimal(value: Any) -> Decimal:
    if not isinstance(value, int | float | Decimal):
        raise TypeError
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _boolean(value: Any) -> bool:
    if value not in (0, 1):
        raise TypeError
    return bool(value)


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(bytes=value)


def _only(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return check


_OF_VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "str": cell_of,
    "int": _integer,
    "float": _number,
    "decimal": _decimal,
    "bool": _boolean,
    "datetime": _only(datetime),
    "uuid": _uuid,
    "bytes": _only(bytes),
}
"""How values that are not text are converted; those of other kinds stay as they are."""
