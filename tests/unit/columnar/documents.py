"""Documents for the tests of columns, and the expected columns, computed from the dicts themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lowtide.columnar.inference import is_json
from lowtide.columnar.text import json_text
from lowtide.values.codec import encode_document

EARLY, LATE = datetime(2, 1, 1), datetime(9998, 1, 1)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(microseconds=-1))])

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "small": st.integers(-10, 10),
    "integer": st.integers(-(2**63), 2**63 - 1),
    "wide": st.integers(-(2**64), 2**65),
    "beyond": st.sampled_from([10**38, -(10**38), 10**38 - 1, 10**400]),
    "float": st.floats(allow_nan=False),
    "decimal": st.decimals(-1000, 1000, places=2) | st.decimals(allow_nan=False),
    "string": st.text(max_size=5),
    "uuid": st.uuids(),
    "bytes": st.binary(max_size=5),
    "naive": st.datetimes(EARLY, LATE),
    "moment": st.datetimes(EARLY, LATE, timezones=ZONES),
}


def _columns(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "c d", "", "é"])
    return st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)


VALUES = st.recursive(st.one_of(st.none(), *KINDS.values()), _columns, max_leaves=6)


@st.composite
def columns(draw: st.DrawFn) -> st.SearchStrategy[Any]:
    """Values that mostly have much in common, as those of one field have."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    plain = KINDS[kind]
    match draw(st.sampled_from(["plain", "plain", "two", "list", "object", "any"])):
        case "two":
            plain = plain | KINDS[draw(st.sampled_from(sorted(KINDS)))]
        case "list":
            plain = st.lists(st.none() | plain, max_size=4)
        case "object":
            plain = st.fixed_dictionaries({"x": plain}, optional={"y": st.none() | plain, "l": st.lists(plain)})
        case "any":
            plain = VALUES
    return plain


@st.composite
def collections(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A few documents of one collection."""
    names = draw(st.lists(st.sampled_from(["_id", "name", "a.b", "", "with space", "f0", "self"]), unique=True))
    fields = {name: draw(columns()) for name in names}
    optional = {name: st.none() | found for name, found in fields.items()}
    return draw(st.lists(st.fixed_dictionaries({}, optional=optional), max_size=12))


def stored(documents: Iterable[dict[str, Any]], size: int = 4) -> list[list[bytes]]:
    """The documents as the store holds them, in batches of ``size``."""
    encoded = [encode_document(each) for each in documents]
    return [encoded[start : start + size] for start in range(0, len(encoded), size)]


def expected(documents: Sequence[dict[str, Any]], schema: pa.Schema) -> list[dict[str, Any]]:
    """What a table of these documents holds, as ``to_pylist`` gives it."""
    return [{field.name: held(each.get(field.name), field) for field in schema} for each in documents]


def held(value: Any, field: pa.Field) -> Any:
    """What a column holds for a value that fits it."""
    found = field.type
    if value is None:
        return None
    if is_json(field):
        return json_text(value)
    if pa.types.is_struct(found):
        return {each.name: held(value.get(each.name), each) for each in found}
    if pa.types.is_list(found):
        return [held(each, found.value_field) for each in value]
    if pa.types.is_floating(found):
        return float(value)
    if pa.types.is_string(found):
        return str(value)
    if pa.types.is_timestamp(found):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return value
