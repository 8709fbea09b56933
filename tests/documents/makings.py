"""Random documents, indexes, filters and sort orders, made of few values so that they match often.

Hypothesis provides only the seed, which makes thousands of documents and filters per second. Strategies for them would
take most of the time of a test. Strings of 100 to 400 characters are longer, alone or together, than an index stores
without truncation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import lowtide
from lowtide.documents.collection import Collection
from lowtide.values.values import Document

LONG = ["x" * 100, "x" * 150 + "y", "x" * 268, "x" * 269, "x" * 270 + "a", "x" * 285, "x" * 290, "x" * 400, "x" * 399]
SCALARS: list[Any] = [
    *(None, -1, 0, 1, 2, 3, 1.0, 2.5, -0.0, float("inf"), Decimal("2.5"), Decimal("0.1"), 2**53 + 1, 2**70, -(2**70)),
    *("", "a", "ab", "a\0", "a\0b", "b", "\uffff", "\U0001f600", True, False, b"", b"x", b"\xff\xff"),
    *(datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), datetime(1969, 1, 1), UUID(int=5), UUID(int=6)),
]
_PATHS = ["a"] * 6 + ["b"] * 4 + ["c", "a.b", "a.b", "a.a", "b.a", "a.0", "a.1", "a.1.b", "a.b.a"]
_FEW: list[Any] = [None, 0, 1, 2, "a", True]
_TEXTS: list[Any] = ["", "a", "ab", "abc", "a\0", "a\0b", "b", None]
_COMPARED = ["$eq", "$gt", "$gte", "$lt", "$lte"]


@dataclass(frozen=True)
class Wanted:
    """The arguments of ``create_index``."""

    keys: list[tuple[str, int]]
    options: dict[str, Any] = field(default_factory=dict)

    def create(self, collection: Collection) -> bool:
        """Make it, if the documents allow it."""
        try:
            collection.create_index(self.keys, **self.options)
        except lowtide.OperationFailure:
            return False
        return True


class Maker:
    """Makes what a test needs from a seed; its values come from a small pool of its own."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        scalars = random.choice([_FEW, _FEW, _TEXTS, random.choices(SCALARS, k=6)])
        if random.random() < 0.3:
            scalars = scalars + random.choices(LONG, k=3)
        self.scalars = scalars
        self.nesting = random.choice([0, 0, 0.15, 0.4])
        self.structured = self.nesting and random.random() < 0.4
        """Whether the documents have arrays of objects, as those of services do."""

    def scalar(self) -> Any:
        return self.random.choice(self.scalars)

    def value(self, depth: int = 0) -> Any:
        chance = self.random.random()
        if depth == 3 or chance > self.nesting:
            return self.scalar()
        if chance < self.nesting / 2:
            return [self.value(depth + 1) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3]))]
        return {name: self.value(depth + 1) for name in self.random.sample(["a", "b", "0"], self.random.randint(0, 2))}

    def body(self) -> Document:
        if self.structured:
            return {
                "a": [self.thing() for _ in range(self.random.randint(0, 3))] if self.random.random() < 0.7 else {},
                "b": self.thing(),
            }
        return {name: self.value() for name in self.random.sample(["a", "b", "c"], self.random.randint(0, 3))}

    def thing(self) -> Any:
        chance = self.random.random()
        if chance < 0.1:
            return self.scalar()
        return {"b": {"a": self.scalar()} if chance < 0.4 else self.scalar()} if chance < 0.8 else {"a": self.value(2)}

    def path(self) -> str:
        return self.random.choice(_PATHS if self.nesting else ["a", "a", "b", "b", "c", "a.b"])

    def paths(self, most: int, least: int = 1) -> list[str]:
        found = {self.path(): None for _ in range(self.random.randint(least, most))}
        return list(found)

    def some(self, most: int = 3) -> list[Any]:
        return [self.value(1) for _ in range(self.random.randint(0, most))]

    # Filters

    def operator(self, depth: int = 0) -> tuple[str, Any]:
        chance = self.random.randrange(23 if depth < 2 else 18)
        if chance in (15, 22):
            return "$regex", self.random.choice(["^a", "^a", "^a.*b", "b", "^x{3}", "^x", "^" + "x" * 280])
        if chance < 10:
            return self.random.choice(_COMPARED), self.value(1)
        if chance < 13:
            return "$in", self.some()
        if chance < 15:
            return "$exists", self.random.random() < 0.6
        if chance == 16:
            return self.random.choice(["$nin", "$all"]), self.some()
        if chance == 17:
            return self.random.choice([("$ne", self.value(1)), ("$size", 1)])
        if chance == 18:
            return "$not", self.operators(depth + 1)
        if chance < 21:
            return "$elemMatch", self.operators(depth + 1)
        return "$elemMatch", self.fields(["a", "b"], depth + 1)

    def operators(self, depth: int = 0) -> dict[str, Any]:
        return dict(self.operator(depth) for _ in range(self.random.choice([1, 1, 2, 2, 3])))

    def fields(self, paths: list[str], depth: int = 0) -> dict[str, Any]:
        return {each: self.value(1) if self.random.random() < 0.35 else self.operators(depth) for each in paths}

    def by_id(self) -> dict[str, Any]:
        ids = [self.random.choice([*range(9), 1.0, "k", None, b"z", 2**80]) for _ in range(3)]
        return self.random.choice(
            [
                {"_id": ids[0]},
                {"_id": {"$in": ids}},
                {"_id": dict(zip(self.random.sample(_COMPARED, 2), ids, strict=False))},
                {"_id": {"$exists": True, "$gte": ids[0]}},
            ]
        )

    def filter(self) -> dict[str, Any]:
        chance = self.random.randrange(12)
        if chance == 0:
            return {}
        if chance == 1:
            return self.by_id()
        if chance == 2:
            return {**self.by_id(), **self.fields(self.paths(2))}
        found = self.fields(self.paths(3, 0 if chance < 7 else 1))
        if chance < 7:
            branches = [self.fields(self.paths(2)) if chance > 3 else self.by_id() for _ in range(2)]
            found[self.random.choice(["$or", "$or", "$or", "$and", "$nor"])] = branches
        return found

    # Sort orders and indexes

    def keys(self, most: int = 3) -> list[tuple[str, int]]:
        return [(each, self.random.choice([1, 1, -1])) for each in self.paths(most)]

    def sort(self) -> list[tuple[str, int]] | None:
        chance = self.random.random()
        if chance < 0.3:
            return None
        return [("_id", self.random.choice([1, -1]))] if chance < 0.35 else self.keys()

    def index(self) -> Wanted:
        options: dict[str, Any] = {}
        chance = self.random.random()
        if chance < 0.15:
            options["sparse"] = True
        elif chance < 0.35:
            options["partialFilterExpression"] = self.partial()
        if self.random.random() < 0.2:
            options["unique"] = True
        return Wanted(self.keys(), options)

    def partial(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in self.paths(2):
            chance = self.random.randrange(5)
            if chance < 2:
                found[path] = self.scalar()
            elif chance == 2:
                found[path] = {"$exists": True}
            elif chance == 3:
                found[path] = {"$in": [self.scalar(), self.scalar()]}
            else:
                found[path] = {self.random.choice(_COMPARED): self.scalar() for _ in range(2)}
        return found
