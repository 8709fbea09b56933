"""One process writes and others read: at a pin, one instant for all of them, or always the newest state."""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path

import lowtide


def report(path: Path) -> int:
    """Runs in another process: the sum of all accounts at the pinned instant."""
    with lowtide.open_snapshot(path, pin="end of day") as snapshot:
        return sum(int(value) for _, value in snapshot.keyspace("accounts").scan())


def newest(path: Path) -> bytes | None:
    """Runs in another process: reads the newest committed state."""
    with lowtide.open(path, read_only=True) as store:
        return store.keyspace("accounts").get(b"000")


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "bank"
    with lowtide.open(path) as store:
        with store.transaction() as tx:
            for number in range(100):
                tx.keyspace("accounts").put(b"%03d" % number, b"10")
        with store.pin("end of day", ttl=600), multiprocessing.get_context("spawn").Pool(2) as pool:
            with store.transaction() as tx:  # the new day has begun
                for number in range(100):
                    tx.keyspace("accounts").put(b"%03d" % number, b"99")
            print("end of day:", pool.map(report, [path] * 4))
            print("now:", pool.apply(newest, [path]))
        print("pins:", store.pins())


if __name__ == "__main__":
    main()
