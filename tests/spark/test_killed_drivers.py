"""kill -9 of drivers, of their tasks and of owners. The session of the test run finishes what a killed driver leaves.

A session is slow to start, so one driver does everything at once when it is killed. In the full attack there are two
drivers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import lowtide
from lowtide.sharing.loading.staged import STAGING
from tests.spark.archive_kills import Kills, kill, tasks_below
from tests.spark.processes import Drivers, Obedient, Program, Programs, Refused, is_alive, programs_in, wait_until
from tests.spark.programs.driver import Driver
from tests.spark.programs.gates import new_gate, processes_at
from tests.spark.programs.ledger import COLLECTION, Model, Sum, check_copy
from tests.support.attack import FULL

SIZE = 500
ROWS = 400
LOADED = 12_000
BAD = 100
"""One in this many loaded rows has no ``_id``."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with programs_in(tmp_path_factory.mktemp("killed")) as programs:
        yield programs


@pytest.fixture(scope="module")
def drivers(programs: Programs) -> Drivers:
    """Of their five tasks at a time, three are of a read and a write that wait at gates; a stream, a load and the
    archiver share the others."""
    return Drivers(lambda: programs.driver_of_a_user("local[5]"))


class SharedSession:
    """The session of the test run, which is asked as a driver is."""

    def __init__(self, spark: SparkSession) -> None:
        self._driver = Driver(spark)

    def ask(self, what: str, **more: Any) -> Any:
        return self._driver.perform(what, **more)


def test_a_session_from_a_virtual_environment_that_is_not_activated(drivers: Drivers, store: lowtide.Store) -> None:
    store["users"].insert_many([{"_id": n, "age": n % 50} for n in range(100)])
    assert drivers.running().ask("count", path=str(store.path), collection="users") == 100


class KilledLoad:
    """A load of files with some bad rows, which is killed and repeated. In the end each good row is in the store once,
    and each bad row is in the quarantine once."""

    def __init__(self, directory: Path) -> None:
        self._source, self._store, self._bad = (directory / name for name in ("rows", "store", "bad"))
        self._source.mkdir(parents=True)
        for part in range(4):
            numbers = range(part * LOADED // 4, (part + 1) * LOADED // 4)
            lines = (f"{'' if number % BAD == 0 else number},{number % 7}" for number in numbers)
            (self._source / f"{part}.csv").write_text("_id,v\n" + "\n".join(lines) + "\n")
        places = {"source": self._source, "store": self._store, "quarantine": self._bad}
        self._order = {**{name: str(place) for name, place in places.items()}, "format": "csv", "name": "rows"}

    def is_staged(self) -> bool:
        """Whether some documents are staged."""
        return any((self._store / STAGING).glob("*/*"))

    def is_put_aside(self) -> bool:
        """Whether bad rows have been put aside."""
        return DeltaTable.is_deltatable(str(self._bad))

    def begin(self, driver: Program, at: Callable[[], bool]) -> int:
        """Begin the load, and wait until it has come to a place, or is done."""
        run = driver.tell("load", **self._order)
        wait_until(lambda: driver.answered(run) or at(), "a load to get so far")
        return run

    def lose_tasks(self, driver: Program) -> None:
        """Load, while all tasks are killed."""
        _kill_tasks(driver)  # those that were left
        wait_until(lambda: not tasks_below(driver.also[0]), "an end of the tasks")
        run = self.begin(driver, lambda: bool(tasks_below(driver.also[0])))
        _kill_tasks(driver)
        with contextlib.suppress(Refused):  # the load may fail then
            driver.answer(run)

    def finish(self, driver: Obedient) -> None:
        done = driver.ask("load", **self._order)
        again = driver.ask("load", **self._order)
        expected = LOADED - LOADED // BAD
        assert again["skipped"]
        assert done["skipped"] or (done["written"], done["quarantined"]) == (expected, LOADED // BAD)
        with lowtide.open(self._store) as opened:
            assert opened["c"].count_documents({}) == expected
            assert sorted(int(each["_id"]) for each in opened["c"].find()) == [n for n in range(LOADED) if n % BAD]
            assert opened.verify().ok
        rows = pa.table(DeltaTable(str(self._bad)).to_pyarrow_dataset().to_table()).column("reason").to_pylist()
        assert rows == ["no_id"] * (LOADED // BAD)
        assert not any((self._store / STAGING).glob("*"))


def _kill_tasks(driver: Program) -> None:
    for victim in tasks_below(driver.also[0]):
        kill(victim)


def test_a_killed_driver_loses_nothing_doubles_nothing_and_leaves_nothing(
    spark: SparkSession, programs: Programs, drivers: Drivers, tmp_path: Path
) -> None:
    """In mid-read, in mid-write, in mid-stream, in a load and in a run of the archiver at once.

    First Spark's JVM goes with the Python process above it, then that process alone, and then the JVM ends by itself.
    The stream goes from one store to another; the owner of its source is killed as well, its target has none. The load
    has lost its tasks before; it is killed when documents are staged, and then when bad rows have been put aside. The
    archiver also loses a task, and the owner of its store: its archive has every commit, once.
    """
    source, target, checkpoint = tmp_path / "source", tmp_path / "target", tmp_path / "checkpoint"
    ledger = {"path": str(source), "collection": COLLECTION}
    stream = {
        "source": {**ledger, "maxRowsPerTrigger": "25"},
        "target": {"path": str(target), "collection": "copy", "checkpointLocation": str(checkpoint)},
    }
    write = {"rows": ROWS, "path": str(source), "collection": "written", "txnAppId": "job", "txnVersion": "1"}

    def stream_on(batches: int) -> None:
        wanted = _batches(checkpoint) + batches
        wait_until(lambda: _batches(checkpoint) >= wanted, f"{batches} further batches")

    load = KilledLoad(tmp_path / "loaded")
    load.lose_tasks(drivers.running())
    owner = programs.owner(source)
    owner.ask("advance", size=SIZE, steps=100)
    archived = tmp_path / "archived"
    archived.mkdir()
    archiver = Kills(programs, drivers, archived, seed=1)
    for what in ("task", "owner", *(("driver", "task", "owner") if FULL else ())):
        archiver.strike(what)

    # In mid-read, and when tasks stage what they write
    gates = [new_gate(tmp_path / "first" / each) for each in ("read", "write")]
    driver = drivers.running()
    read = driver.tell("sum", **ledger, batchSize="50", partitions="1", gates=str(tmp_path / "first"))
    staging = driver.tell("write", **write, gates=str(tmp_path / "first"))
    for run, gate in zip((read, staging), gates, strict=True):
        _wait_at(driver, run, gate)
    running = driver.tell("stream", **stream)
    stream_on(2)
    assert not driver.answered(running), "the stream is still running"
    archiver.strike("driver", until=lambda: load.begin(driver, load.is_staged))
    wait_until(lambda: not any(each.startswith("spark") for each in owner.ask("pins")), "an end of the pin")
    _check_gone(owner, *gates)
    assert _written(source) == []

    # Between staging and commit; the owner of the source goes as well. A further session, so not in every run
    acknowledged = owner.last_step
    owner.ask("advance", size=SIZE, steps=50)
    if FULL:
        gates = [new_gate(tmp_path / "second" / "commit")]
        driver = drivers.running()
        _wait_at(driver, driver.tell("write", **write, gates=str(tmp_path / "second")), *gates)
        running = driver.tell("stream", **stream)
        stream_on(1)
        owner.kill()
        acknowledged = owner.last_step
        owner = programs.owner(source)
        owner.ask("advance", size=SIZE, steps=30)
        stream_on(1)
        load.begin(driver, load.is_put_aside)
        drivers.kill(alone=True)
        wait_until(lambda: not any(map(is_alive, driver.also)), "an end of the JVM, by itself")
        _check_gone(owner, *gates)
        assert _written(source) == []

    # To the end
    last = owner.last_step
    assert last > acknowledged
    session = SharedSession(spark)
    stream["source"]["maxRowsPerTrigger"] = "2000"
    session.ask("write", **write)
    session.ask("write", **write)  # is known, and skipped
    session.ask("stream", **stream)
    found = Sum(*session.ask("sum", **ledger))
    assert found == Model(SIZE).at(last)
    load.finish(session)
    assert archiver.finish(driver=session) > 50
    wait_until(lambda: owner.ask("pins") == [], "an end of the pins")
    owner.ask("close")

    assert _written(source) == [(number, number * 7) for number in range(ROWS)]
    with lowtide.open(target) as store:
        check_copy(store["copy"].find(), SIZE, last)
        assert store.verify().ok
    with lowtide.open(source) as store:
        assert store.verify().ok
    for path in (source, target):
        assert list((path / "staging").iterdir()) == []


def _batches(checkpoint: Path) -> int:
    """How many batches of a stream have begun."""
    return sum(1 for each in checkpoint.glob("offsets/*") if each.name.isdecimal())


def _wait_at(driver: Program, run: int, gate: Path) -> None:
    wait_until(lambda: bool(processes_at(gate)) or driver.answered(run), f"somebody at the gate {gate.name!r}")
    if not processes_at(gate):
        pytest.fail(f"it ended before it came to the gate {gate.name!r}: {driver.answer(run)}")


def _check_gone(owner: Program, *gates: Path) -> None:
    """The processes at the gates end with their driver, and so do their places among the readers."""
    tasks = set().union(*map(processes_at, gates))
    wait_until(lambda: not any(map(is_alive, tasks)), f"an end of the tasks {tasks}")
    wait_until(lambda: tasks.isdisjoint(owner.ask("readers")), "an end of the tasks' places among the readers")


def _written(path: Path) -> list[tuple[int, int]]:
    with lowtide.open(path, read_only=True) as store:
        return sorted((each["_id"], each["n"]) for each in store["written"].find())
