"""kill -9 of drivers, of their tasks and of owners. The tests share drivers: each takes the one that was left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lowtide
from lowtide.sharing.loading.staged import STAGING
from tests.spark.archive_kills import Kills, kill, tasks_below
from tests.spark.processes import Drivers, Program, Programs, Refused, is_alive, programs_in, wait_until
from tests.spark.programs.gates import new_gate, processes_at
from tests.spark.programs.ledger import COLLECTION, Model, Sum, check_copy
from tests.support.attack import FULL, some

SIZE = 500
ROWS = 400
LOADED = 60_000
BAD = 100
"""Every so many rows that are loaded, one has no ``_id``."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with programs_in(tmp_path_factory.mktemp("killed")) as programs:
        yield programs


@pytest.fixture(scope="module")
def drivers(programs: Programs) -> Drivers:
    """Their eight tasks at a time are those of a read and of a write that wait at gates, of a stream and of the
    archiver."""
    return Drivers(lambda: programs.driver("local[8]"))


def test_a_session_from_a_virtual_environment_that_is_not_activated(
    programs: Programs, drivers: Drivers, store: lowtide.Store
) -> None:
    store["users"].insert_many([{"_id": n, "age": n % 50} for n in range(100)])
    drivers.adopt(programs.driver_of_a_user("local[8]"))
    assert drivers.running().ask("count", path=str(store.path), collection="users") == 100


def test_a_load_that_is_killed_and_repeated_is_done_once(drivers: Drivers, tmp_path: Path) -> None:
    """Its tasks are killed, and then its driver, when documents are staged; in the full attack also when bad rows have
    been put aside. What is good is there once, and so is what is bad."""
    source, store, bad = tmp_path / "rows", tmp_path / "store", tmp_path / "bad"
    source.mkdir()
    for part in range(4):
        numbers = range(part * LOADED // 4, (part + 1) * LOADED // 4)
        lines = (f"{'' if number % BAD == 0 else number},{number % 7}" for number in numbers)
        (source / f"{part}.csv").write_text("_id,v\n" + "\n".join(lines) + "\n")
    order = {"source": str(source), "store": str(store), "format": "csv", "name": "rows", "quarantine": str(bad)}

    def begun(driver: Program, at: Callable[[], bool]) -> int:
        """Begin the load, and wait until it has come to a place, or is done."""
        run = driver.tell("load", **order)
        wait_until(lambda: driver.answered(run) or at(), "a load to get so far")
        return run

    driver = drivers.running()
    _kill_tasks(driver)  # those that the last test has left
    wait_until(lambda: not tasks_below(driver.also[0]), "an end of the tasks")
    run = begun(driver, lambda: bool(tasks_below(driver.also[0])))
    _kill_tasks(driver)
    with contextlib.suppress(Refused):  # the load may fail then
        driver.answer(run)
    places = (lambda: any((store / STAGING).glob("*/*")), lambda: DeltaTable.is_deltatable(str(bad)))
    for place in some(places, 1):
        begun(driver, place)
        drivers.kill()
        driver = drivers.running()
    done = driver.ask("load", **order)
    again = driver.ask("load", **order)
    expected = LOADED - LOADED // BAD
    assert again["skipped"]
    assert done["skipped"] or (done["written"], done["quarantined"]) == (expected, LOADED // BAD)
    with lowtide.open(store) as opened:
        assert opened["c"].count_documents({}) == expected
        assert sorted(int(each["_id"]) for each in opened["c"].find()) == [n for n in range(LOADED) if n % BAD]
        assert opened.verify().ok
    rows = pa.table(DeltaTable(str(bad)).to_pyarrow_dataset().to_table()).column("reason").to_pylist()
    assert rows == ["no_id"] * (LOADED // BAD)
    assert not any((store / STAGING).glob("*"))


def _kill_tasks(driver: Program) -> None:
    for victim in tasks_below(driver.also[0]):
        kill(victim)


def test_a_killed_driver_loses_nothing_doubles_nothing_and_leaves_nothing(
    programs: Programs, drivers: Drivers, tmp_path: Path
) -> None:
    """In mid-read, in mid-write, in mid-stream and in a run of the archiver at once.

    First Spark's JVM goes with the Python process above it, then that process alone, and then the JVM ends by itself.
    The stream goes from one store to another; the owner of its source is killed as well, its target has none. The
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
    driver.tell("sum", **ledger, batchSize="50", gates=str(tmp_path / "first"))
    driver.tell("write", **write, gates=str(tmp_path / "first"))
    _wait_at(driver, *gates)
    running = driver.tell("stream", **stream)
    stream_on(2)
    assert not driver.answered(running), "the stream is still running"
    archiver.strike("driver")
    wait_until(lambda: not any(each.startswith("spark") for each in owner.ask("pins")), "an end of the pin")
    _check_gone(owner, *gates)
    assert _written(source) == []

    # Between staging and commit; the owner of the source goes as well. A further session, so not in every run
    acknowledged = owner.last_step
    owner.ask("advance", size=SIZE, steps=50)
    if FULL:
        gates = [new_gate(tmp_path / "second" / "commit")]
        driver = drivers.running()
        driver.tell("write", **write, gates=str(tmp_path / "second"))
        _wait_at(driver, *gates)
        running = driver.tell("stream", **stream)
        stream_on(1)
        owner.kill()
        acknowledged = owner.last_step
        owner = programs.owner(source)
        owner.ask("advance", size=SIZE, steps=30)
        stream_on(1)
        drivers.kill(alone=True)
        wait_until(lambda: not any(map(is_alive, driver.also)), "an end of the JVM, by itself")
        _check_gone(owner, *gates)
        assert _written(source) == []

    # To the end
    last = owner.last_step
    assert last > acknowledged
    driver = drivers.running()
    stream["source"]["maxRowsPerTrigger"] = "2000"
    copied = driver.tell("stream", **stream)
    driver.ask("write", **write)
    driver.ask("write", **write)  # is known, and skipped
    driver.answer(copied)
    found = Sum(*driver.ask("sum", **ledger))
    assert found == Model(SIZE).at(last)
    assert archiver.finish() > 50
    drivers.kill()
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


def _wait_at(driver: Program, *gates: Path) -> None:
    for gate in gates:
        wait_until(lambda at=gate: bool(processes_at(at)), f"somebody at the gate {gate.name!r}")  # type: ignore[misc]


def _check_gone(owner: Program, *gates: Path) -> None:
    """The processes at the gates end with their driver, and so do their places among the readers."""
    tasks = set().union(*map(processes_at, gates))
    wait_until(lambda: not any(map(is_alive, tasks)), f"an end of the tasks {tasks}")
    wait_until(lambda: tasks.isdisjoint(owner.ask("readers")), "an end of the tasks' places among the readers")


def _written(path: Path) -> list[tuple[int, int]]:
    with lowtide.open(path, read_only=True) as store:
        return sorted((each["_id"], each["n"]) for each in store["written"].find())
