"""kill -9 in mid-stream, of everything but the driver: every change comes over, once, however often the stream has to
be started again. A driver that is killed is in test_kills_driver."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import lowtide
from tests.spark.processes import PATIENCE, programs_in, wait_until
from tests.spark.programs.driver import copy
from tests.spark.programs.gates import GatedSource, new_gate, open_gate, processes_at
from tests.spark.programs.ledger import COLLECTION, check_copy

SIZE = 300


def test_every_change_comes_over_once_whatever_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    spark.dataSource.register(GatedSource)

    def streamed(place: str) -> None:
        """Let the stream run up to a gate, kill who is meant, and let it run to its end, or its failure."""
        gates = tmp_path / f"{place}-{len(list(tmp_path.iterdir()))}"
        gate = new_gate(gates / place.split()[0])
        query = copy(
            spark,
            {"path": str(source), "collection": COLLECTION, "maxCommitsPerTrigger": "50", "gates": str(gates)},
            {
                "path": str(target),
                "collection": "copy",
                "checkpointLocation": str(tmp_path / "checkpoint"),
                "gates": str(gates),
            },
        )
        wait_until(lambda: bool(processes_at(gate)) or not query.isActive, f"somebody at the gate {place!r}")
        assert processes_at(gate), f"the stream ended before it came to the gate {place!r}: {query.exception()}"
        kill_at(place, processes_at(gate))
        open_gate(gate)
        try:
            assert query.awaitTermination(int(PATIENCE))
        except StreamingQueryException:
            assert place not in ("read owner", "commit owner"), "without its owner a store goes on"

    with programs_in(tmp_path) as programs:
        owners = {"source": programs.owner(source), "target": programs.owner(target)}

        owners["source"].ask("advance", size=SIZE, steps=50)

        def kill_at(place: str, there: set[int]) -> None:
            """Kill the owner of a store, whom another one follows, or the process at the gate; and write on."""
            if place == "read owner":
                owners["source"].kill()
                owners["source"] = programs.owner(source)
            elif place == "commit owner":
                owners["target"].kill()
                owners["target"] = programs.owner(target)
            else:
                for each in there:
                    os.kill(each, signal.SIGKILL)
            owners["source"].ask("advance", size=SIZE, steps=30)

        for place in ("read", "commit", "committed", "read owner", "commit owner", "plan"):
            streamed(place)
        copy(
            spark,
            {"path": str(source), "collection": COLLECTION},
            {"path": str(target), "collection": "copy", "checkpointLocation": str(tmp_path / "checkpoint")},
        ).awaitTermination(int(PATIENCE))
        last = owners["source"].last_step
        for owner in owners.values():
            owner.ask("close")
    with lowtide.open(target) as store:
        check_copy(store["copy"].find(), SIZE, last)
        assert store.verify().ok
    assert list((target / "staging").iterdir()) == []
