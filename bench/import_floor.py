"""``python -m bench.import_floor``: the cost of an import of JSON Lines, step by step, and its floor.

Each step adds to the ones before it, in one process: read and decode the lines; encode the documents and make their
keys; sort the rows and append them to a separate LMDB file, in one synced transaction. Nothing that stores documents in
LMDB in one process can be faster than that. Then comes the import as one transaction into a new store: log, versions in
memory, and the checkpoint when the store is closed. Last comes the import by several processes, directly to the base,
which is how the command imports a large file into an empty collection.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import lmdb

import lowtide
from bench.importing import write_lines
from lowtide.documents.files.json_lines import read_json_lines
from lowtide.documents.operations import PlainDocuments
from lowtide.documents.prepared.inserts import PreparedBatch, prepare_batch
from lowtide.store.staged_import import LEAST_BYTES, import_staged

_HEAD = bytes(12)
"""As long as the prefix of a keyspace and the timestamp of a row."""


def decode(file: Path) -> Iterator[PlainDocuments]:
    with open(file, "rb") as stream:
        for batch in read_json_lines(stream, file.name):
            yield PlainDocuments(batch.documents)


def encode(file: Path) -> Iterator[PreparedBatch]:
    for documents in decode(file):
        prepared = prepare_batch(documents)
        assert prepared is not None, "people have an _id and plain values"
        yield prepared


def append(file: Path, place: Path) -> None:
    """Put the rows into LMDB in key order."""
    rows = sorted(
        (_HEAD + key, _HEAD + row) for each in encode(file) for key, row in zip(each.keys, each.encoded, strict=True)
    )
    with lmdb.open(str(place), map_size=1 << 36) as environment, environment.begin(write=True) as txn:
        txn.cursor().putmulti(rows, append=True)


def insert(file: Path, place: Path, closed: Callable[[], object]) -> None:
    with lowtide.open(place) as store:
        with store.transaction() as tx:
            people = tx.collection("people")
            for documents in decode(file):
                people.insert_many(documents)
        closed()


def by_processes(file: Path, place: Path) -> None:
    with lowtide.open(place, checkpointer="thread") as store:
        assert import_staged(store, "people", file, lambda done, documents: None), "the file is too small"


def _spent(count: int, what: str, work: Callable[[], object]) -> None:
    started = perf_counter()
    work()
    _tell(count, what, perf_counter() - started)


def _tell(count: int, what: str, seconds: float) -> None:
    print(f"{what:45} {seconds * 1e6 / count:5.1f} µs a document, {count / seconds:9,.0f} documents/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--documents", type=int, default=1_000_000)
    count = parser.parse_args().documents
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "people.jsonl"
        write_lines(file, count)
        _spent(count, "read and decode", lambda: [None for _ in decode(file)])
        _spent(count, "... and encode", lambda: [None for _ in encode(file)])
        _spent(count, "... and append to LMDB in key order", lambda: append(file, Path(name) / "lmdb"))
        started = perf_counter()
        insert(
            file,
            Path(name) / "store",
            lambda: _tell(count, "import, until it is committed", perf_counter() - started),
        )
        _tell(count, "import, until the store is closed", perf_counter() - started)
        if file.stat().st_size >= LEAST_BYTES:
            _spent(count, "import by processes, until it is closed", lambda: by_processes(file, Path(name) / "staged"))


if __name__ == "__main__":
    gc.disable()  # as the command does
    main()
