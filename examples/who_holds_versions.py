"""Which snapshots keep old versions: statistics list each live snapshot, where it was opened and what it keeps."""

from __future__ import annotations

import tempfile

import lowtide


def forgotten_report(store: lowtide.Store) -> lowtide.Snapshot:
    """A caller opens a snapshot and does not close it."""
    return store.snapshot()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory, durability="relaxed") as store:
        prices = store.keyspace("prices")
        for item in range(10):
            prices.put(b"item-%d" % item, b"1.00")

        report = forgotten_report(store)
        for change in range(1_000):
            prices.put(b"item-%d" % (change % 10), b"%d.00" % change)
        store.collect_garbage()

        stats = store.stats()
        print(f"{stats.collected} versions dropped, {stats.versions + stats.history} kept")
        for snapshot in stats.snapshots:
            # Only the file's name is shown, so the output is the same everywhere.
            where = snapshot.where.rsplit("/", 1)[-1]
            held = f"{snapshot.versions_held} versions, {snapshot.bytes_held} bytes"
            print(f"snapshot {snapshot.ts}, opened at {where}, holds {held}")
        # A thousand writes, but one old version per key that changed.
        assert stats.snapshots[0].versions_held == 10

        report.close()
        store.collect_garbage()
        after = store.stats()
        print(f"closed: {len(after.snapshots)} snapshots, {after.versions + after.history} versions kept")
        assert not after.snapshots


if __name__ == "__main__":
    main()
