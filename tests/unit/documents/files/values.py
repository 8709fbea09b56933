"""Documents with every kind of value, for property tests."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

names = st.text(max_size=8).filter(lambda name: not name.startswith("$"))
zones = st.none() | st.just(UTC) | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=zones)
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
documents: st.SearchStrategy[dict[str, Any]] = st.dictionaries(names, values, max_size=6)


def typed(value: Any) -> Any:
    """``value`` with the type of each part, so that 1, 1.0 and True differ, and two moments with other offsets."""
    if isinstance(value, dict):
        return {name: typed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [typed(each) for each in value]
    return type(value), str(value)
