"""kill -9 in mid-stream, of everything but the driver: every change arrives exactly once, however often the stream has
to be restarted. Killed drivers are tested in test_killed_drivers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lowtide
from tests.spark.processes import Programs, programs_in, wait_until
from tests.spark.programs.driver import copy
from tests.spark.programs.gates import GatedSource, new_gate, open_gate, processes_at
from tests.spark.programs.ledger import COLLECTION, check_copy
from tests.support.attack import some
from tests.support.patience import PATIENCE

SIZE = 300


class Stream:
    """The stream from one store to another, each with an owner, that is started again and again."""

    def __init__(self, spark: SparkSession, programs: Programs, directory: Path) -> None:
        self._spark = spark
        self._programs = programs
        self._directory = directory
        self.owners = {name: programs.owner(directory / name) for name in ("source", "target")}

    def write_on(self, steps: int) -> None:
        self.owners["source"].ask("advance", size=SIZE, steps=steps)

    def run(self, gates: Path) -> StreamingQuery:
        """Copy what there is."""
        checkpoint = str(self._directory / "checkpoint")
        source = {"path": str(self._directory / "source"), "collection": COLLECTION, "maxCommitsPerTrigger": "50"}
        target = {"path": str(self._directory / "target"), "collection": "copy", "checkpointLocation": checkpoint}
        return copy(self._spark, {**source, "gates": str(gates)}, {**target, "gates": str(gates)})

    def interrupt(self, at: str, victim: str) -> bool:
        """Let the stream come to a gate, kill the owner of a store, whom another one follows, or the process at the
        gate, and let it go on; whether it came to its end."""
        gates = self._directory / f"{victim} at {at}"
        gate = new_gate(gates / at)
        query = self.run(gates)
        wait_until(lambda: bool(processes_at(gate)) or not query.isActive, f"somebody at the gate {at!r}")
        assert processes_at(gate), f"the stream ended before it came to the gate {at!r}: {query.exception()}"
        if victim in self.owners:
            self.owners[victim].kill()
            self.owners[victim] = self._programs.owner(self._directory / victim)
        else:
            for each in processes_at(gate):
                os.kill(each, signal.SIGKILL)
        self.write_on(30)
        open_gate(gate)
        try:
            assert query.awaitTermination(int(PATIENCE))
        except StreamingQueryException:
            return False
        return True


def test_every_change_comes_over_once_whatever_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    """At some of the gates, others in the next run; at all of them in the full attack."""
    spark.dataSource.register(GatedSource)
    with programs_in(tmp_path) as programs:
        stream = Stream(spark, programs, tmp_path)
        stream.write_on(50)
        for gate in some(("read", "write", "commit", "committed", "plan"), 2):
            assert not stream.interrupt(gate, "process"), f"the stream does not notice a kill at {gate!r}"
        for gate, victim in some((("read", "source"), ("plan", "source"), ("commit", "target")), 1):
            assert stream.interrupt(gate, victim), f"the stream needs the owner of the {victim}"
        assert stream.run(tmp_path / "no gates").awaitTermination(int(PATIENCE))
        last = stream.owners["source"].last_step
        for owner in stream.owners.values():
            owner.ask("close")
    with lowtide.open(tmp_path / "target") as store:
        check_copy(store["copy"].find(), SIZE, last)
        assert store.verify().ok
    assert list((tmp_path / "target" / "staging").iterdir()) == []
