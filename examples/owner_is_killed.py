"""The process that owns a store is killed while another one commits; the other takes over, and nothing is lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from pathlib import Path

import lowtide


def own(path: Path, opened: multiprocessing.synchronize.Event) -> None:
    """Runs in another process, which owns the store: increments a counter forever."""
    with lowtide.open(path) as store:
        opened.set()
        while True:
            store.run(increment)


def increment(tx: lowtide.Transaction) -> int:
    counter = tx.keyspace("counter")
    number = int(counter.get(b"n") or b"0") + 1
    counter.put(b"n", b"%d" % number)
    return number


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "store"
    processes = multiprocessing.get_context("spawn")
    opened = processes.Event()
    owner = processes.Process(target=own, args=(path, opened), daemon=True)
    owner.start()
    opened.wait()
    with lowtide.open(path) as store:
        before = [store.run(increment) for _ in range(20)]
        snapshot = store.snapshot()
        seen = snapshot.keyspace("counter").get(b"n")
        os.kill(owner.pid or 0, signal.SIGKILL)
        after = [store.run(increment) for _ in range(20)]
        print("the snapshot is what it was:", snapshot.keyspace("counter").get(b"n") == seen)
        print("every increment is there once:", sorted({*before, *after}) == [*before, *after])
        print("this process owns the store:", store.stats().processes[0].pid == os.getpid())
        snapshot.close()
    owner.join()


if __name__ == "__main__":
    main()
