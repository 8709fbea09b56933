"""The rules of a load: what a row of the source becomes, a stored document or a rejection with its reason.

Pure: a row is a dict of values, whichever file it came from. Tasks apply the rules to each row, see ``judging``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lowtide.documents.schema import SchemaValidator, compile_schema
from lowtide.errors import InvalidDocument
from lowtide.pipeline.load.mapping import ID, CastFailed, FieldMapping, cast_of
from lowtide.values.codec import encode_document
from lowtide.values.ids import id_key
from lowtide.values.values import Document

UNREADABLE: Final = "unreadable"
CAST: Final = "cast"
NO_ID: Final = "no_id"
BAD_ID: Final = "bad_id"
DUPLICATE_ID: Final = "duplicate_id"
SCHEMA: Final = "schema"
NAME: Final = "name"
VALUE: Final = "value"
REASONS: Final = {
    UNREADABLE: "the line or record is not what the format says",
    CAST: "a value cannot be converted to the type that the mapping asks for",
    NO_ID: "the row has no _id",
    BAD_ID: "the _id has a type that no _id can have, or is too long",
    DUPLICATE_ID: "several rows of the load have this _id; none of them is loaded",
    SCHEMA: "the document violates the JSON Schema",
    NAME: "a field name begins with $",
    VALUE: "a value cannot be stored, or the document is too large",
}
"""Why a row is not loaded."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A row that becomes a document: its key, and its stored form."""

    key: bytes
    document: bytes


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is not loaded: one of ``REASONS``, the field that it is about, and what is wrong with it."""

    reason: str
    field: str
    detail: str


@dataclass(frozen=True, slots=True)
class Unrepresentable:
    """Stands for a value that Python cannot hold, such as a date in the year 20000."""

    detail: str


class _Unfit(Exception):
    """Ends the judgement of a row."""

    def __init__(self, reason: str, field: str, detail: str) -> None:
        super().__init__(detail)
        self.rejected = Rejected(reason, field, detail)


_MISSING: Final = object()


class Rules:
    """A mapping and the schemas that its documents must satisfy, compiled."""

    def __init__(self, mapping: FieldMapping, schemas: Iterable[Mapping[str, Any]] = ()) -> None:
        self._mapping = mapping
        self._taken = mapping.taken
        self._casts: list[Callable[[Any], Any] | None] = [
            None if each.cast is None else cast_of(each.cast) for each in mapping.targets
        ]
        self._validators: list[SchemaValidator] = list(map(compile_schema, schemas))

    def judge(self, row: Mapping[str, Any], computed: Sequence[Any] = ()) -> Accepted | Rejected:
        """What becomes of a row. ``computed`` are the values of the mapping's SQL expressions, in their order.

        >>> from lowtide.pipeline.load.mapping import parse_mapping
        >>> Rules(parse_mapping({"_id": {"from": "n", "cast": "int"}})).judge({"n": "x"})
        Rejected(reason='cast', field='_id', detail="'x' is not of type int")
        """
        try:
            document = self.document(row, computed)
            return Accepted(_key(document), self._encoded(document))
        except _Unfit as unfit:
            return unfit.rejected

    def document(self, row: Mapping[str, Any], computed: Sequence[Any] = ()) -> Document:
        """The document of a row. A field that the row does not have is left out."""
        document: Document = {ID: None}
        if self._mapping.rest:
            taken = self._taken
            document.update((name, value) for name, value in row.items() if name not in taken)
        given = iter(computed)
        for target, cast in zip(self._mapping.targets, self._casts, strict=True):
            if target.sql is not None:
                value = next(given)
                value = _MISSING if value is None else value
            elif target.column is not None:
                value = _found(row, target.column)
            else:
                value = target.constant
            if value is _MISSING:
                continue
            if cast is not None and value is not None and not isinstance(value, Unrepresentable):
                try:
                    value = cast(value)
                except CastFailed as error:
                    raise _Unfit(CAST, target.field, str(error)) from error
            _put(document, target.path, value)
        for name, value in document.items():
            if isinstance(value, Unrepresentable):
                raise _Unfit(VALUE, name, value.detail)
        return document

    def _encoded(self, document: Document) -> bytes:
        try:
            encoded = encode_document(document)
        except InvalidDocument as error:
            is_name = error.path.rpartition(".")[2].startswith("$")
            detail = str(error).removeprefix(f"{error.path}: ")
            raise _Unfit(NAME if is_name else VALUE, error.path, detail) from error
        for each in self._validators:
            if found := each.violations(document):
                raise _Unfit(SCHEMA, found[0].path, found[0].reason)
        return encoded


def _key(document: Document) -> bytes:
    if document[ID] is None:
        raise _Unfit(NO_ID, ID, REASONS[NO_ID])
    try:
        return id_key(document[ID])
    except InvalidDocument as error:
        raise _Unfit(BAD_ID, ID, str(error).partition(": ")[2]) from error


def _found(row: Mapping[str, Any], column: str) -> Any:
    """The value of a column; if there is none of that name, of a field inside one."""
    if column in row or "." not in column:
        return row.get(column, _MISSING)
    value: Any = row
    for part in column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _put(document: Document, path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    inner = document
    for part in parents:
        inner = inner.setdefault(part, {})
    if isinstance(value, Unrepresentable):
        raise _Unfit(VALUE, ".".join(path), value.detail)
    inner[last] = value
