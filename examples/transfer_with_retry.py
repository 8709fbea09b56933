"""Two threads change the same accounts; `store.run` retries a transaction that lost a conflict."""

from __future__ import annotations

import tempfile
import threading
import time

import lowtide

TRANSFERS = 50


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory, durability="relaxed") as store:
        accounts = store.keyspace("accounts")
        accounts.put(b"ann", b"1000")
        accounts.put(b"bob", b"1000")
        attempts: list[bytes] = []

        def transfer(source: bytes, target: bytes, amount: int) -> None:
            def move(tx: lowtide.Transaction) -> None:
                # May be called more than once, each time on a new snapshot, so it should have
                # no side effects other than the transaction's own writes.
                attempts.append(source)
                ledger = tx.keyspace("accounts")
                has, had = int(ledger.get(source) or 0), int(ledger.get(target) or 0)
                # Work between reading and writing, during which the other thread may commit.
                time.sleep(0.0005)
                ledger.put(source, b"%d" % (has - amount))
                ledger.put(target, b"%d" % (had + amount))

            store.run(move, attempts=100)

        def work(source: bytes, target: bytes, amount: int) -> None:
            for _ in range(TRANSFERS):
                transfer(source, target, amount)

        threads = [
            threading.Thread(target=work, args=(b"ann", b"bob", 3)),
            threading.Thread(target=work, args=(b"bob", b"ann", 2)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        print(f"{2 * TRANSFERS} transfers, {len(attempts) - 2 * TRANSFERS} conflicts retried")
        # 50 times 3 went one way and 50 times 2 the other: no update was lost.
        print("ann", accounts.get(b"ann"), "bob", accounts.get(b"bob"))
        assert (accounts.get(b"ann"), accounts.get(b"bob")) == (b"950", b"1050")


if __name__ == "__main__":
    main()
