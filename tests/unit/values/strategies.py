"""Hypothesis strategies for documents, operators and filters, with few names and values so that they match often."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st

names = st.sampled_from(["a", "b", "0", "1"])
scalars = st.sampled_from(
    [
        *(None, 0, 1, 2, 1.0, 2.5, Decimal("2.5"), 2**70, "", "a", "ab", "b", True, False, b"x"),
        *(datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1)),
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2),
    max_leaves=5,
)
documents = st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)
paths = st.lists(names, min_size=1, max_size=3).map(".".join)


def _operators(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of one to three operators; ``inner`` are those for ``$not`` and ``$elemMatch``."""
    pairs = (
        st.tuples(st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), values)
        | st.tuples(st.sampled_from(["$in", "$nin", "$all"]), st.lists(values, max_size=3))
        | st.tuples(st.just("$exists"), st.booleans())
        | st.tuples(st.just("$type"), st.sampled_from(["number", "string", "array", "null", 8, ["object", "date"]]))
        | st.tuples(st.just("$size"), st.integers(0, 3))
        | st.tuples(st.just("$mod"), st.sampled_from([[2, 0], [2, 1], [3, 2]]))
        | st.tuples(st.just("$regex"), st.sampled_from(["^a", "^a.*", "b", "^ab?", "^$"]))
        | st.tuples(st.just("$not"), inner)
        | st.tuples(st.just("$elemMatch"), inner | st.dictionaries(paths, inner | values, max_size=2))
    )
    return st.lists(pairs, min_size=1, max_size=3).map(dict)


operators = _operators(_operators(st.just({"$gt": 1})))
fields = st.dictionaries(paths, values | operators, min_size=1, max_size=2)
filters = fields | st.builds(
    lambda both, name, branches: {**both, name: branches},
    fields,
    st.sampled_from(["$and", "$or", "$nor"]),
    st.lists(fields, min_size=1, max_size=3),
)
