"""The owner of a store, which keeps writing in the steps of a ledger.

``python -m tests.spark.programs.owner PATH OPTIONS PLACE``; the options are JSON. It reports every commit, and kills
itself when it first reaches the place, if that is not empty. Checkpoints are tiny, and garbage is collected after
nearly every commit.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import lowtide
from tests.crash.killing import Killer
from tests.spark.programs.ledger import COLLECTION, Model
from tests.spark.programs.obeying import obey, tell
from tests.support.patience import PATIENCE

OPTIONS: dict[str, Any] = {
    "durability": "relaxed",
    "checkpoint_bytes": 64 << 10,
    "segment_bytes": 64 << 10,
    "collect_threshold": 1,
    "monitor_interval": 0.1,
    "checkpointer": "thread",
}
_PAUSE = 0.004
"""Seconds between commits: leaves Spark some of the processor."""


class Owner:
    """An open store. Commands come from several threads; one of them writes."""

    def __init__(self, path: str, **options: Any) -> None:
        self.store = lowtide.open(path, **{**OPTIONS, **options})
        self._ending = threading.Event()
        self._writing: threading.Thread | None = None

    def perform(self, what: str, **more: Any) -> Any:
        return getattr(self, f"do_{what}")(**more)

    def do_write(self, size: int) -> None:
        """Go on from the last step that was committed, until the end."""
        self._writing = threading.Thread(target=self.do_advance, args=(size, 1 << 30), daemon=True)
        self._writing.start()

    def do_advance(self, size: int, steps: int) -> None:
        """Do the given number of further steps."""
        model = Model(size)
        found = self.store[COLLECTION].find_one({"_id": 0})
        first = 0 if found is None else found["n"] + 1
        for step in range(first, first + steps):
            tx = self.store.begin()
            model.take(tx, step)
            tell(step=step, ts=tx.commit())
            if self._ending.wait(_PAUSE):
                break

    def do_pins(self) -> list[str]:
        return [pin.name for pin in self.store.pins()]

    def do_readers(self) -> list[int]:
        """The processes that have a place in LMDB's table of readers."""
        return [int(each.split()[0]) for each in self.store.inspect_base().readers]

    def do_figures(self) -> dict[str, int]:
        stats = self.store.stats()
        return {"checkpoints": stats.checkpoints, "collected": stats.collected}

    def do_close(self) -> None:
        self._ending.set()
        if self._writing is not None:
            self._writing.join()
        self.store.close()


def main() -> None:
    path, options, place = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    if place:
        Killer(place, 1).watch()
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            owner = Owner(path, **options)
            break
        except lowtide.StoreLocked:  # another process recovers it, after its owner was killed
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    obey(owner.perform)


if __name__ == "__main__":
    main()
