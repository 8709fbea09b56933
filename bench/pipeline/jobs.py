"""The measurements at one number of versions: a store is filled, archived, compacted, read and vacuumed, and a history
is audited.

Times are wall time and CPU time. CPU time is that of the driver, its JVM and all Python workers together, which other
work on the same machine affects less (``cpu.py``).
"""

from __future__ import annotations

import hashlib
import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import lowtide
import lowtide.pipeline
from bench.fresh import in_fresh_process
from bench.pipeline.cpu import CpuMeter
from bench.section import Data
from bench.spark.session import CORES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPDATES = 10
"""Versions of each document."""
BATCH = 1_000
"""Documents that one commit writes."""
COLLECTION = "orders"
FEED_BYTES = 1 << 40
ROUNDS = 3
OPERATIONS = 4
"""Rows of a recorded history that stand for one transaction: a read, a write, a begin and a commit."""


def fill(path: str, versions: int) -> Data:
    """Make a store whose log has this many versions: each document is inserted, and then changed repeatedly."""
    documents = versions // UPDATES
    with lowtide.open(path, durability="relaxed", feed_bytes=FEED_BYTES) as store:
        orders = store[COLLECTION]
        for begin in range(0, documents, BATCH):
            orders.insert_many([_document(number) for number in range(begin, min(begin + BATCH, documents))])
        for _ in range(UPDATES - 1):
            for begin in range(0, documents, BATCH):
                orders.update_many({"_id": {"$gte": begin, "$lt": begin + BATCH}}, {"$inc": {"count": 1}})
    return {}


def _document(number: int) -> dict[str, Any]:
    return {
        "_id": number,
        "customer": f"customer {number * 7919 % 10_000}",
        "city": ("Oslo", "Bergen", "Tromsø")[number % 3],
        "price": number % 997 / 8,
        "count": 0,
        # Sixty characters that no compression finds anything in, the same at each run.
        "note": hashlib.sha256(b"%d" % number).hexdigest()[:60],
    }


def record(path: Path, versions: int) -> int:
    """Write a valid history with this many rows. Returns the number of its transactions."""
    chance, last = random.Random(versions), [0] * 10_000
    transactions = versions // OPERATIONS
    with path.open("w") as file:
        for number in range(1, transactions + 1):
            key = chance.randrange(len(last))
            name = f"key-{key:05}"
            rows: tuple[dict[str, Any], ...] = (
                {"op": "begin", "index": 0, "session": number % 8, "turn": number, "time": number},
                {"op": "read", "index": 1, "key": name, "version": last[key]},
                {"op": "write", "index": 2, "key": name, "value": number},
                {"op": "commit", "index": 3, "version": number, "time": number + 0.5},
            )
            file.writelines(json.dumps({"tx": number, **row}) + "\n" for row in rows)
            last[key] = number
    return transactions


class Measuring:
    """The figures of one size, as they come; times are in seconds, memory is in bytes. ``keep`` is given all of them
    after each step."""

    def __init__(
        self, spark: SparkSession, versions: int, tell: Callable[[str], None], keep: Callable[[Data], None]
    ) -> None:
        self._spark = spark
        self._tell = tell
        self._keep = keep
        self._versions = versions
        self.found: Data = {"versions": versions, "documents": versions // UPDATES}

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        """Do some work, and record its time."""
        self._tell(f"{self._versions:,} versions: {name}")
        _reset_peak()
        shuffled, begun = _shuffled(self._spark), perf_counter()
        with CpuMeter() as meter:
            result = work()
        self.found[f"{name} seconds"] = perf_counter() - begun
        self.found[f"{name} cpu"] = meter.seconds
        self.found[f"{name} driver"] = _peak()
        self.found[f"{name} shuffled"] = _shuffled(self._spark) - shuffled
        self._keep(self.found)
        return result


def measure(spark: SparkSession, place: Path, measuring: Measuring) -> None:
    """Everything but the audit."""
    store, archive, plain = place / "store", place / "archive", place / "plain"
    found, timed = measuring.found, measuring.timed
    versions = found["versions"]
    # In a process of its own: what the store leaves in memory is not the driver's.
    timed("fill", lambda: in_fresh_process(fill, path=str(store), versions=versions))
    feed = spark.read.format("lowtide").options(collection=COLLECTION, readChangeFeed="true", startingVersion="1")
    timed("feed to Parquet", lambda: feed.load(str(store)).write.mode("overwrite").parquet(str(place / "feed")))
    done = timed("archive", lambda: lowtide.pipeline.archive(spark, store, archive, compact="never"))
    assert done.rows == versions, (done, versions)
    timed("compact", lambda: lowtide.pipeline.compact(spark, archive))
    state = lowtide.pipeline.status(archive)
    found["files"], found["bytes"] = state.files, state.bytes
    newest = lowtide.pipeline.as_of(spark, archive, None, COLLECTION)
    newest.coalesce(CORES).write.mode("overwrite").parquet(str(plain))
    pairs = [
        (
            _read(lambda: lowtide.pipeline.as_of(spark, archive, None, COLLECTION)),
            _read(lambda: spark.read.parquet(str(plain))),
        )
        for _ in range(ROUNDS + 1)
    ][1:]
    found["as_of seconds"], found["plain seconds"] = (median(each) for each in zip(*pairs, strict=True))
    found["as_of ratio"] = median(ours / theirs for ours, theirs in pairs)
    middle = done.commit // 2
    timed("as_of the middle", lambda: _read(lambda: lowtide.pipeline.as_of(spark, archive, middle, COLLECTION)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = lowtide.pipeline.history(spark, archive, COLLECTION, versions // UPDATES // 2)
        rows = timed("history", history.collect)
        assert len(rows) == UPDATES, rows
        found["history files"] = len(history.inputFiles())
    vacuumed = timed("vacuum", lambda: lowtide.pipeline.vacuum(spark, archive, [middle]))
    found["dropped"] = vacuumed.dropped
    found["heap"] = _heap(spark)


def measure_audit(spark: SparkSession, place: Path, measuring: Measuring) -> None:
    """The audit of a history with as many rows."""
    found = measuring.found
    found["transactions"] = record(place / "history.jsonl", found["versions"])
    report = measuring.timed("audit", lambda: lowtide.pipeline.audit(spark, place / "history.jsonl"))
    assert report.ok, report
    assert report.committed == found["transactions"], report


def _read(frame: Callable[[], DataFrame]) -> float:
    """The seconds that it takes to find out what to read, and to read all of it."""
    begun = perf_counter()
    frame().write.format("noop").mode("overwrite").save()
    return perf_counter() - begun


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The most memory that the Python process of the driver has had since the reset, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _shuffled(spark: SparkSession) -> int:
    """The bytes that all tasks so far have written for others to read."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    executors = context.statusStore().executorList(False)
    return sum(int(executors.apply(number).totalShuffleWrite()) for number in range(executors.size()))


def _heap(spark: SparkSession) -> int:
    """What the driver's JVM, which in local mode runs the tasks as well, still holds after a collection."""
    jvm: Any = spark.sparkContext._jvm
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())
