"""A report on one instant: a snapshot sees the same data from beginning to end while others write."""

from __future__ import annotations

import tempfile
import threading

import lowtide


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory, durability="relaxed") as store:
        with store.transaction() as tx:
            for number in range(100):
                tx.keyspace("stock").put(b"item-%03d" % number, b"10")

        stop = threading.Event()

        def move_stock() -> None:
            """Take from one item and add to another, over and over: the total stays 1000."""
            number = 0
            while not stop.is_set():
                with store.transaction() as tx:
                    stock = tx.keyspace("stock")
                    source, target = b"item-%03d" % (number % 100), b"item-%03d" % ((number + 37) % 100)
                    stock.put(source, b"%d" % (int(stock.get(source) or 0) - 1))
                    stock.put(target, b"%d" % (int(stock.get(target) or 0) + 1))
                number += 1

        writer = threading.Thread(target=move_stock)
        writer.start()
        try:
            with store.snapshot() as snapshot:
                # Two passes over the data, for a report with a total and details.
                items = snapshot.keyspace("stock")
                total = sum(int(count) for _, count in items.scan())
                while store.stats().last_commit < snapshot.ts + 200:
                    stop.wait(0.001)
                again = sum(int(count) for _, count in items.scan())
                meanwhile = store.stats().last_commit - snapshot.ts
        finally:
            stop.set()
            writer.join()

        print(f"report at {snapshot.ts}: total {total}, and {again} at the second pass")
        print("commits between the two passes:", "200 or more" if meanwhile >= 200 else meanwhile)
        assert total == again == 1000


if __name__ == "__main__":
    main()
