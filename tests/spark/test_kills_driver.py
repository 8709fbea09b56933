"""kill -9 of the driver in mid-read, in mid-write and in mid-stream at once: a session is slow to start.

First Spark's JVM goes with the Python process above it, then that process alone, and then the JVM ends by itself. The
stream goes from one store to another; the owner of its source is killed as well, its target has none.
"""

from __future__ import annotations

from pathlib import Path

import lowtide
from tests.spark.processes import Program, is_alive, programs_in, wait_until
from tests.spark.programs.gates import new_gate, processes_at
from tests.spark.programs.ledger import COLLECTION, Model, Sum, check_copy
from tests.support.attack import FULL

SIZE = 500
ROWS = 400


def test_a_killed_driver_loses_nothing_doubles_nothing_and_leaves_nothing(tmp_path: Path) -> None:
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

    with programs_in(tmp_path) as programs:
        owner = programs.owner(source)
        owner.ask("advance", size=SIZE, steps=100)

        # In mid-read, and when tasks stage what they write
        gates = [new_gate(tmp_path / "first" / each) for each in ("read", "write")]
        driver = programs.driver("local[6]")
        driver.tell("sum", **ledger, batchSize="50", gates=str(tmp_path / "first"))
        driver.tell("write", **write, gates=str(tmp_path / "first"))
        _wait_at(driver, *gates)
        running = driver.tell("stream", **stream)
        stream_on(2)
        assert not driver.answered(running), "the stream is still running"
        driver.kill()
        wait_until(lambda: not any(each.startswith("spark") for each in owner.ask("pins")), "an end of the pin")
        _check_gone(owner, *gates)
        assert _written(source) == []

        # Between staging and commit; the owner of the source goes as well. A further session, so not in every run
        acknowledged = owner.last_step
        owner.ask("advance", size=SIZE, steps=50)
        if FULL:
            gates = [new_gate(tmp_path / "second" / "commit")]
            driver = programs.driver("local[6]")
            driver.tell("write", **write, gates=str(tmp_path / "second"))
            _wait_at(driver, *gates)
            running = driver.tell("stream", **stream)
            stream_on(1)
            owner.kill()
            acknowledged = owner.last_step
            owner = programs.owner(source)
            owner.ask("advance", size=SIZE, steps=30)
            stream_on(1)
            driver.kill(alone=True)
            wait_until(lambda: not any(map(is_alive, driver.also)), "an end of the JVM, by itself")
            _check_gone(owner, *gates)
            assert _written(source) == []

        # To the end
        last = owner.last_step
        assert last > acknowledged
        driver = programs.driver("local[2]")
        stream["source"]["maxRowsPerTrigger"] = "2000"
        copied = driver.tell("stream", **stream)
        driver.ask("write", **write)
        driver.ask("write", **write)  # is known, and skipped
        driver.answer(copied)
        found = Sum(*driver.ask("sum", **ledger))
        assert found == Model(SIZE).at(last)
        driver.kill()
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
