"""Imports of JSON Lines, each in its own process: how long it takes, and how much memory it needs."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter, sleep

import msgspec

from bench.collections.people import make_people
from bench.fresh import occupied
from bench.section import Data

BATCH = 10_000
_LOOK_SECONDS = 0.02


class ImportFailed(Exception):
    """Raised if the command ended with an error, or did not import all. Its output is on the standard error."""


def write_lines(file: Path, count: int) -> int:
    """Write the first ``count`` people as JSON Lines; return the length of the file."""
    encode = msgspec.json.Encoder().encode
    with open(file, "wb") as out:
        out.writelines(encode(person) + b"\n" for person in make_people(0, count, count))
    return os.path.getsize(file)


# -- the ways ---------------------------------------------------------------------------------------------------------


def by_lowtide(place: Path, file: Path, count: int) -> list[str]:
    """The command, with a commit for every batch, which bounds its memory."""
    return [*by_lowtide_at_once(place, file, count), "--batches", str(BATCH)]


def by_lowtide_at_once(place: Path, file: Path, count: int) -> list[str]:
    """The command as it is by default: the whole file is one transaction, which is in memory until its commit."""
    return ["-m", "lowtide", "import", str(place), "people", str(file), "--create", "--json"]


def by_sqlite3(place: Path, file: Path, count: int) -> list[str]:
    """This module as a program: a row of JSON text for each line, a transaction for each batch."""
    return ["-m", __name__, "sqlite3", str(place), str(file)]


def by_duckdb(place: Path, file: Path, count: int) -> list[str]:
    """This module as a program: one statement, which makes columns of the fields."""
    return ["-m", __name__, "duckdb", str(place), str(file)]


WAYS: dict[str, Callable[[Path, Path, int], list[str]]] = {
    "lowtide, in batches": by_lowtide,
    "lowtide, all or nothing": by_lowtide_at_once,
    "sqlite3": by_sqlite3,
    "duckdb": by_duckdb,
}


def watched(way: str, place: Path, file: Path, count: int) -> Data:
    """Import the file this way into an empty directory, and sample the memory of the process."""
    command = [sys.executable, *WAYS[way](place, file, count)]
    started = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        own = resident = 0
        while process.poll() is None:
            now = _memory(process.pid)
            own, resident = max(own, now[0]), max(resident, now[1])
            sleep(_LOOK_SECONDS)
        seconds = perf_counter() - started
        assert process.stdout is not None
        answer = process.stdout.read()
    if process.returncode != 0 or json.loads(answer)["imported"] != count:
        raise ImportFailed(f"{way}: status {process.returncode}, {answer.strip() or 'no answer'}")
    return {"way": way, "documents": count, "seconds": seconds, "own": own, "resident": resident}


def _memory(process: int) -> tuple[int, int]:
    """Bytes of the process itself, and those with the pages of files that it has mapped; none of one that ended."""
    try:
        now = occupied(process)
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    return now.get("RssAnon", 0), now.get("VmRSS", 0)


# -- the peers, as programs -------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> None:
    peer, place, file = arguments
    Path(place).mkdir(parents=True)
    imported = _into_sqlite3(place, file) if peer == "sqlite3" else _into_duckdb(place, file)
    print(json.dumps({"imported": imported}))


def _into_sqlite3(place: str, file: str) -> int:
    connection = sqlite3.connect(f"{place}/people.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE people (id TEXT PRIMARY KEY, document TEXT NOT NULL)")
    with open(file, encoding="utf-8") as lines:
        for batch in _batches(lines):
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                # One of its functions extracts the key, and so also finds a line that is not JSON.
                connection.executemany("INSERT INTO people VALUES (json_extract(?1, '$._id'), ?1)", batch)
    (count,) = connection.execute("SELECT count(*) FROM people").fetchone()
    connection.close()
    return int(count)


def _batches(lines: Iterable[str]) -> Iterator[list[tuple[str]]]:
    waiting = iter(lines)
    while batch := [(line,) for line in islice(waiting, BATCH)]:
        yield batch


def _into_duckdb(place: str, file: str) -> int:
    import duckdb

    with duckdb.connect(f"{place}/people.db") as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM read_json(?, format = 'newline_delimited')", [file])
        connection.execute("CHECKPOINT")
        found = connection.execute("SELECT count(*) FROM people").fetchone()
    assert found is not None
    return int(found[0])


if __name__ == "__main__":
    main(sys.argv[1:])
