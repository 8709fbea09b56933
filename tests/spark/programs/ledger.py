"""Documents that change in numbered steps, and their content after each step: the model that reads are compared with.

What a step does follows from its number alone, so the number determines every document. The document with _id 0 has
the number of the last step, so a snapshot itself says which state it must show.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lowtide.store.transactions import Transaction

COLLECTION = "ledger"
SCHEMA = "_id long, n long, pad string"
_PER_STEP = 10


@dataclass(frozen=True)
class Sum:
    """One state: the number of its step, how many documents there are, and the sum of their checksums."""

    step: int
    count: int
    checksum: int


class Model:
    """The documents after a number of steps."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.step = 0
        self.documents = dict.fromkeys(range(size), 0)
        """_id -> n"""

    def changes(self, step: int) -> dict[int, int | None]:
        """What a step changes: the new n of documents by _id, None for those that are deleted."""
        chance = random.Random(step)
        changed: dict[int, int | None] = {}
        for each in range(_PER_STEP):
            changed[chance.randrange(1, self.size)] = None if chance.random() < 0.3 else step * 100 + each
        return {**changed, 0: step}

    def at(self, step: int) -> Sum:
        """The state after a step, not before the one that was last asked for."""
        assert step >= self.step, f"the model is past step {step}"
        while self.step < step:
            self.step += 1
            for key, value in self.changes(self.step).items():
                if value is None:
                    self.documents.pop(key, None)
                else:
                    self.documents[key] = value
        checksum = sum(zlib.crc32(b"%d:%d" % each) for each in self.documents.items())
        return Sum(step, len(self.documents), checksum)

    def take(self, tx: Transaction, step: int) -> None:
        """Do a step in a transaction; the first one, 0, makes the documents."""
        documents = tx.collection(COLLECTION)
        if step == 0:
            documents.insert_many(_document(key, 0) for key in range(self.size))
            return
        for key, value in self.changes(step).items():
            if value is None:
                documents.delete_one({"_id": key})
            else:
                documents.replace_one({"_id": key}, _document(key, value), upsert=True)


def check_copy(rows: Iterable[Mapping[str, Any]], size: int, last: int) -> None:
    """Hold the copied changes of a ledger to the model: first the documents as they were after some step, as inserts of
    one version; then for each further step up to the last one version with just its changes."""
    versions: dict[int, list[tuple[str, int, int | None]]] = {}
    for row in rows:
        versions.setdefault(row["version"], []).append((row["kind"], row["key"], row.get("n")))
    assert versions, "nothing was copied"
    began = min(versions)
    (step,) = [value for _, key, value in versions[began] if key == 0]
    assert step is not None
    model = Model(size)
    model.at(step)
    copied = [sorted(versions[each]) for each in sorted(versions)]
    expected = [sorted(_kinds(Model(0), model.documents))]
    for number in range(step + 1, last + 1):
        expected.append(sorted(_kinds(model, model.changes(number))))
        model.at(number)
    for number, (found, wanted) in enumerate(zip(copied, expected, strict=False), step):
        assert found == wanted, f"step {number}"
    assert len(copied) == len(expected), f"steps {step} to {last}"


def _kinds(
    model: Model, changes: Mapping[int, int] | Mapping[int, int | None]
) -> Iterator[tuple[str, int, int | None]]:
    """What the change feed says of a step."""
    for key, value in changes.items():
        if value is not None:
            yield ("update_postimage" if key in model.documents else "insert"), key, value
        elif key in model.documents:
            yield "delete", key, None


def _document(key: int, value: int) -> dict[str, object]:
    return {"_id": key, "n": value, "pad": "x" * 100}


def sum_of(frame: DataFrame) -> Sum:
    """What a DataFrame of the documents shows, computed by Spark."""
    found = frame.selectExpr(
        "count(*) AS count",
        "sum(crc32(concat_ws(':', _id, n))) AS checksum",
        "max(CASE WHEN _id = 0 THEN n END) AS step",
    ).first()
    assert found is not None
    return Sum(found["step"], found["count"], found["checksum"])
