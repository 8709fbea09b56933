"""A consumer follows the change feed, and resumes at its position after a restart."""

from __future__ import annotations

import tempfile
from pathlib import Path

import lowtide


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "shop"
    mirror: dict[bytes, bytes] = {}
    with lowtide.open(path) as store:
        consumer = store.consumer("mirror", since=0)
        stock = store.keyspace("stock")
        stock.put(b"tea", b"7")
        stock.put(b"coffee", b"3")
        follow(consumer, mirror)
        print(mirror, "up to commit", consumer.position)
    with lowtide.open(path) as store:  # after a restart, or in another process with read_only=True
        store.keyspace("stock").delete(b"tea")
        store.keyspace("stock").put(b"coffee", b"2")
        consumer = store.consumer("mirror")
        follow(consumer, mirror)
        print(mirror, "up to commit", consumer.position)


def follow(consumer: lowtide.Consumer, mirror: dict[bytes, bytes]) -> None:
    """Apply new changes, then acknowledge them: after an interruption they are applied again, and none is lost."""
    last = None
    for change in consumer.changes():
        print(f"  commit {change.ts}: {change.kind} {change.key.decode()}")
        if change.value is None:
            del mirror[change.key]
        else:
            mirror[change.key] = change.value
        last = change.ts
    if last is not None:
        consumer.ack(last)


if __name__ == "__main__":
    main()
