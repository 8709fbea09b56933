"""``python -m bench.arrow_floor``: the time to convert stored documents to an Arrow table, and its floor.

First, the stored documents are read from the store and joined, as bytes. A conversion in this process cannot do less.
Then ``to_arrow`` itself, which also finds each value in these bytes, infers the types, and makes the columns. Last,
DuckDB builds the same table from JSON Lines, with one thread and with all.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import pyarrow as pa

import lowtide
from bench.collections.people import make_people
from bench.importing import BATCH, write_lines
from lowtide.engine import EngineSnapshot, Range, after_prefix
from lowtide.store.owned import OwnedStore
from lowtide.store.store import backend_of


def read(store: lowtide.Store) -> int:
    """Read the documents as they are stored, and join them; the number of bytes."""
    owned = backend_of(store)
    assert isinstance(owned, OwnedStore)
    prefix = owned.engine.catalog.prefix_of("documents/people")
    with EngineSnapshot(owned.engine, None) as snapshot:
        batches = snapshot.values(Range(prefix, after_prefix(prefix)), BATCH)
        return sum(len(b"".join(batch)) for batch in batches)


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
        fill(place / "store", count)
        with lowtide.open(place / "store") as store:
            tell("read the stored documents", lambda: read(store), count, rounds)
            tell("to_arrow", store["people"].to_arrow, count, rounds)
        write_lines(place / "people.jsonl", count)
        tell("duckdb, one thread", by_duckdb(place / "people.jsonl", 1), count, rounds)
        tell("duckdb, all threads", by_duckdb(place / "people.jsonl", None), count, rounds)


if __name__ == "__main__":
    main()
