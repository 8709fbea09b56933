"""The documents of the collections that are compared: people, with an index on ``email`` and one on ``rank``.

They are computed by arithmetic alone, so they are the same in every run, and fast enough for a million of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]

_NAMES = ("Ada", "Barbara", "Edsger", "Grace", "Jim", "Leslie", "Michael", "Pat", "Phil", "Tony")
CITIES = ("Aberdeen", "Bergen", "Cuxhaven", "Den Helder", "Esbjerg", "Fremantle", "Galway", "Husum", "Izmir")
_STREETS = ("Harbour Road", "Long Quay", "North Pier", "Old Dyke", "Salt Lane", "Tide Street", "Weir Walk")
_TAGS = ("archived", "export", "northern", "priority", "retail", "seasonal", "trial", "wholesale")
_STRIDE = 7_919  # a prime: it has no factor in common with the numbers of people that are used


def make_id(number: int) -> str:
    return f"p{number:08d}"


def make_email(number: int) -> str:
    return f"{_NAMES[number % 10].lower()}.{number:07d}@example.org"


def make_rank(number: int, count: int) -> int:
    """A place of its own for each of the first ``count``, in an order that is not that of their ids.

    >>> sorted(make_rank(number, 10) for number in range(10)) == list(range(10))
    True
    >>> make_rank(12, 10)
    12
    """
    return number * _STRIDE % count if number < count else number


def make_person(number: int, count: int) -> Document:
    """The document with this number, of a collection that was loaded with ``count``: about 300 bytes of JSON."""
    mixed = number * 2_654_435_761 % 4_294_967_296
    return {
        "_id": make_id(number),
        "name": f"{_NAMES[number % 10]} {number:07d}",
        "email": make_email(number),
        "city": CITIES[mixed % 9],
        "rank": make_rank(number, count),
        "balance": mixed % 1_000_000,
        "score": mixed / 4_294_967_296,
        "active": mixed & 64 == 0,
        "tags": [_TAGS[mixed & 7], _TAGS[mixed >> 3 & 7]],
        "address": {"street": _STREETS[mixed % 7], "house": mixed % 200 + 1, "zip": f"{mixed % 100_000:05d}"},
        "revision": 0,
    }


def make_people(start: int, stop: int, count: int) -> Iterator[Document]:
    for number in range(start, stop):
        yield make_person(number, count)
