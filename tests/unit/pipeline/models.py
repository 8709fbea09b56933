"""A model of loads: rows of text, a mapping, and the result that the documentation promises."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st

MAPPING = {
    "_id": {"from": "id", "cast": "int"},
    "count.n": {"from": "n", "cast": "int"},
    "name": "name",
    "kind": {"constant": "row"},
}
raw_rows = st.fixed_dictionaries(
    {
        "id": st.one_of(st.integers(0, 9).map(str), st.sampled_from(["", "x", "1.5"])),
        "n": st.one_of(st.integers(-5, 5).map(str), st.sampled_from(["", "many"])),
        "name": st.sampled_from(["", "Ann", "Bo, the second", "über", '"quoted"']),
    }
)
"""Rows as the cells of a CSV, where an empty one is null."""


def modelled(rows: list[dict[str, str]]) -> tuple[dict[int, dict[str, Any]], dict[str, int]]:
    """The documents by ``_id``, and how many rows are refused for which reason."""
    reasons: Counter[str] = Counter()
    passed = []
    for row in rows:
        if row["id"] in ("x", "1.5") or row["n"] == "many":
            reasons["cast"] += 1
        elif row["id"] == "":
            reasons["no_id"] += 1
        else:
            document: dict[str, Any] = {"_id": int(row["id"])}
            if row["n"]:
                document["count"] = {"n": int(row["n"])}
            if row["name"]:
                document["name"] = row["name"]
            passed.append(document | {"kind": "row"})
    often = Counter(each["_id"] for each in passed)
    good = {each["_id"]: each for each in passed if often[each["_id"]] == 1}
    if len(good) < len(passed):
        reasons["duplicate_id"] = len(passed) - len(good)
    return good, dict(reasons)
