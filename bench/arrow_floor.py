"""``python -m bench.arrow_floor``: the time to convert stored documents to an Arrow table, and its floor.

First, documents in memory are decoded, as one array, to objects of a class with their fields. A conversion that decodes
documents to Python objects cannot do less. Then each field is converted to an Arrow column as well, in the simple way.
That is no floor: ``to_arrow`` may be faster. Then ``to_arrow`` itself, which also reads the documents from the store
and infers their types. Last, DuckDB builds the same table from JSON Lines, with one thread and with all.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import msgspec
import pyarrow as pa

import lowtide
from bench.collections.people import make_people
from bench.importing import BATCH, write_lines
from lowtide.system.cycles import without_collector
from lowtide.values.codec import encode_document

Stored = list[bytes]


class Address(msgspec.Struct, gc=False):
    street: str
    house: int
    zip: str


class Person(msgspec.Struct, gc=False):
    """The fields of a document, with the types that ``to_arrow`` finds."""

    id: str = msgspec.field(name="_id")
    name: str
    email: str
    city: str
    rank: int
    balance: int
    score: float
    active: bool
    tags: list[str]
    address: Address
    revision: int


FIELDS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "name": pa.string(),
    "email": pa.string(),
    "city": pa.string(),
    "rank": pa.int64(),
    "balance": pa.int64(),
    "score": pa.float64(),
    "active": pa.bool_(),
    "tags": pa.list_(pa.string()),
    "revision": pa.int64(),
}
ADDRESS: dict[str, pa.DataType] = {"street": pa.string(), "house": pa.int64(), "zip": pa.string()}
_people = msgspec.msgpack.Decoder(list[Person]).decode


def make_stored(count: int) -> list[Stored]:
    """The documents in their stored form, in batches."""
    stored = [encode_document(person) for person in make_people(0, count, count)]
    return [stored[first : first + BATCH] for first in range(0, count, BATCH)]


def decode(batch: Stored) -> list[Person]:
    """Decode documents as one array."""
    return _people(b"\xdd" + len(batch).to_bytes(4, "big") + b"".join(batch))


def columns(people: list[Person]) -> pa.RecordBatch:
    """A column for each field. The column of objects is built from the columns of their fields."""
    arrays = {name: _column(people, name, kind) for name, kind in FIELDS.items()}
    inner = [each.address for each in people]
    address = pa.StructArray.from_arrays([_column(inner, *each) for each in ADDRESS.items()], list(ADDRESS))
    return pa.RecordBatch.from_pydict({"_id": arrays.pop("id"), **arrays, "address": address})


def _column(rows: list[Any], name: str, kind: pa.DataType) -> pa.Array:
    return pa.array(list(map(attrgetter(name), rows)), kind)


def decoded(batches: list[Stored]) -> int:
    with without_collector():
        return sum(len(decode(batch)) for batch in batches)


def converted(batches: list[Stored]) -> pa.Table:
    with without_collector():
        return pa.Table.from_batches([columns(decode(batch)) for batch in batches])


def fill(place: Path, count: int) -> None:
    with lowtide.open(place, durability="relaxed") as store:
        people = list(make_people(0, count, count))
        for first in range(0, count, BATCH):
            store["people"].insert_many(people[first : first + BATCH])


def by_duckdb(file: Path, threads: int | None) -> Callable[[], pa.Table]:
    """Return a function that builds the table with DuckDB, with this number of threads or its default."""
    import duckdb

    connection = duckdb.connect()
    if threads is not None:
        connection.execute(f"SET threads = {threads}")
    return lambda: connection.read_json(str(file), format="newline_delimited").to_arrow_table()


def tell(what: str, work: Callable[[], object], count: int, rounds: int) -> None:
    """Print the minimum of several rounds, in wall time and in CPU time."""
    clocks, cpus = [], []
    for _ in range(rounds):
        clock, cpu = perf_counter(), process_time()
        work()
        clocks.append(perf_counter() - clock)
        cpus.append(process_time() - cpu)
    each = 1e6 / count
    print(f"{what:40} {min(clocks) * each:5.2f} µs a document, {min(cpus) * each:5.2f} of CPU", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    count, rounds = given.documents, given.rounds
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        batches = make_stored(count)
        tell("decode the documents", lambda: decoded(batches), count, rounds)
        tell("... and make a column of each field", lambda: converted(batches), count, rounds)
        fill(place / "store", count)
        with lowtide.open(place / "store") as store:
            tell("to_arrow", store["people"].to_arrow, count, rounds)
        write_lines(place / "people.jsonl", count)
        tell("duckdb, one thread", by_duckdb(place / "people.jsonl", 1), count, rounds)
        tell("duckdb, all threads", by_duckdb(place / "people.jsonl", None), count, rounds)


if __name__ == "__main__":
    main()
