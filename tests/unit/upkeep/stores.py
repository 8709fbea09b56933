"""A store with everything that can be examined: full segments, tombstones, history, chains, a pin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lowtide
from lowtide.upkeep.report import VerifyReport
from tests.support.parts import parts_of

SMALL: dict[str, Any] = {
    "durability": "relaxed",
    "segment_bytes": 4096,
    "map_size": 1 << 22,
    "checkpointer": "thread",
    "sync_interval": 1000,
    "feed_bytes": 0,
}


@dataclass
class Lived:
    """An open store, and the holders of what is in it."""

    store: lowtide.Store
    holders: list[lowtide.Snapshot | lowtide.Transaction]

    @property
    def path(self) -> Path:
        return self.store.path

    def content(self) -> dict[bytes, bytes]:
        return dict(self.store.keyspace("fruit").scan())

    def close(self) -> None:
        for holder in self.holders:
            if isinstance(holder, lowtide.Snapshot):
                holder.close()
            else:
                holder.rollback()
        self.store.close()


def live_in(path: Path, *, pin: bool = True, **options: Any) -> Lived:
    """Make such a store. Keys 00 to 29 were put, of those 10 to 19 deleted under a snapshot and a writer, and 00 to 09
    put again since the last checkpoint, under snapshots."""
    store = lowtide.open(path, **{**SMALL, **options})
    fruit = store.keyspace("fruit")
    for number in range(30):
        fruit.put(b"%02d" % number, b"first" * 20)
    lived = Lived(store, [store.snapshot(), store.begin()])
    for number in range(10, 20):
        fruit.delete(b"%02d" % number)
    fruit.put(b"29", b"before the boundary")
    store.checkpoint()
    if pin:
        store.pin("report", ttl=3600)
    for turn in range(4):
        for number in range(10):
            fruit.put(b"%02d" % number, b"%d" % turn * 200)
        lived.holders.append(store.snapshot())
    fruit.delete(b"05")
    fruit.put(b"last", b"one")
    return lived


def unsound(report: VerifyReport) -> set[str]:
    return {check.name for check in report.checks if check.found}


def base_of(lived: Lived) -> Any:
    return parts_of(lived.store).base
