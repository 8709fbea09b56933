"""``python -m bench.load_floor``: the cost of loading documents that Spark's tasks have staged, and its floor.

Each step adds to the ones before it: read the staged files; put the rows into a separate LMDB file, in key order, in
one synced transaction; put what a bulk load keeps for the change feed there as well, which has each document once more,
in blocks. A load cannot do less. Then comes the load itself: as one transaction, which is used for a job of up to
256 MiB beside other documents; as a bulk load through the log, as an application does it for another process; and
directly to the base. Each is timed until it is committed, and until the store is closed, when all rows are in the base.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter

import lmdb

import lowtide
from bench.spark.rows import COLLECTION, make_document
from lowtide.feed.differences import encode_blocks
from lowtide.sharing.loading.job import Job, StagedFile, new_job_name
from lowtide.sharing.loading.staged import announce, driver_process, make_staging, stage, staged_batches
from lowtide.store.owned import OwnedStore
from lowtide.store.store import backend_of
from lowtide.values.codec import encode_document
from lowtide.values.ids import id_key

_BATCH = 10_000
_ROWS, _CHANGES, _TS = b"\x00\x00\x00\x01", b"\x00\x00\x00\x02", bytes(8)
"""The prefixes of two keyspaces, and as many bytes as the timestamp of a row has."""
ONE, BULK = 1 << 40, 0
"""The staged bytes above which a load is a bulk load."""
WAYS = (
    ("one transaction", ONE, False),
    ("bulk load", BULK, False),
    ("straight to the base", ONE, True),
)
"""Each way to load, with the staged bytes and whether the rows go straight to the base."""


def stage_documents(store: Path, count: int, bulk_bytes: int) -> tuple[str, Path, StagedFile]:
    """Stage documents as a task does, and announce the job; its name, its directory and its file."""
    name = new_job_name()
    directory = make_staging(store, name, driver_process())

    def batches() -> Iterator[tuple[list[bytes], list[bytes]]]:
        for first in range(0, count, _BATCH):
            rows = [make_document(number) for number in range(first, min(count, first + _BATCH))]
            yield [id_key(each["_id"]) for each in rows], [encode_document(each) for each in rows]

    file = stage(directory, batches())
    announce(directory, Job(collection=COLLECTION, how="append", files=(file,), bulk_bytes=bulk_bytes))
    return name, directory, file


def read(directory: Path, file: StagedFile) -> int:
    return sum(len(keys) for keys, _ in staged_batches(directory, (file,)))


def straight(directory: Path, file: StagedFile, place: Path, *, changes: bool) -> int:
    """Put the staged rows into LMDB in key order, and with ``changes`` those of the change feed."""
    rows: list[tuple[bytes, bytes]] = []
    told: list[tuple[bytes, bytes]] = []
    for keys, documents in staged_batches(directory, (file,)):
        rows += [(_ROWS + key, _TS + document) for key, document in zip(keys, documents, strict=True)]
        if changes:
            told += [(_CHANGES + key, _TS + block) for key, block in zip(*encode_blocks(keys, documents), strict=True)]
    rows.sort()
    told.sort()
    with lmdb.open(str(place), map_size=1 << 36) as environment, environment.begin(write=True) as txn:
        txn.cursor().putmulti(rows, append=True)
        txn.cursor().putmulti(told, append=True)
        return int(txn.stat()["entries"])


def load(path: Path, name: str, committed: Callable[[], object], *, direct: bool = True) -> None:
    with lowtide.open(path) as store:
        owned = backend_of(store)
        assert isinstance(owned, OwnedStore)
        owned.loader.apply(name, direct=direct)
        committed()


class Laps:
    """Reports the time per document since it was made, in wall time and in CPU time of this process and of its ended
    children, such as the helper that makes checkpoints."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._clock, self._cpu = perf_counter(), _cpu()

    def tell(self, what: str) -> None:
        clock, cpu = perf_counter() - self._clock, _cpu() - self._cpu
        each = 1e6 / self._count
        print(f"{what:48} {clock * each:5.1f} µs a document, {cpu * each:5.1f} of CPU", flush=True)


def _cpu() -> float:
    """Seconds of CPU."""
    both = (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--documents", type=int, default=1_000_000)
    count = parser.parse_args().documents
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for path, _, _ in WAYS:
            lowtide.open(place / path).close()
        _, directory, file = stage_documents(place / WAYS[0][0], count, ONE)
        laps = Laps(count)
        read(directory, file)
        laps.tell("read the staged files")
        laps = Laps(count)
        straight(directory, file, place / "rows", changes=False)
        laps.tell("... and put the rows into LMDB in key order")
        laps = Laps(count)
        straight(directory, file, place / "both", changes=True)
        laps.tell("... and what the change feed shows")
        for how, size, direct in WAYS:
            name, _, _ = stage_documents(place / how, count, size)
            laps = Laps(count)
            committed = partial(laps.tell, f"{how}, until it is committed")
            load(place / how, name, committed, direct=direct)
            laps.tell(f"{how}, until the store is closed")


if __name__ == "__main__":
    gc.disable()  # as a load does
    main()
