"""The group by city for stores without aggregation, as their users write it in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.collections.people import Document


def grouped(documents: Iterable[Mapping[str, Any]]) -> list[Document]:
    counts: dict[str, int] = {}
    totals: dict[str, int] = {}
    for document in documents:
        city = document["city"]
        counts[city] = counts.get(city, 0) + 1
        totals[city] = totals.get(city, 0) + document["balance"]
    return [{"_id": city, "count": count, "total": totals[city]} for city, count in counts.items()]
