"""The process that act 3 kills: it transfers money and prints every acknowledged commit.

    python -m demo.crash_child STORE ROUND THREADS ACCOUNTS

A line is `commit receipt`: the commit's timestamp, and the key of the receipt that it wrote.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import traceback

import lowtide
from demo.bank import any_two_accounts, transfer

RECEIPTS = "receipts"


def receipt_key(crash: int, thread: int, number: int) -> bytes:
    return b"%02d/%02d/%08d" % (crash, thread, number)


def work_or_exit(store: lowtide.Store, crash: int, thread: int, accounts: int) -> None:
    try:
        work(store, crash, thread, accounts)
    except BaseException:
        # End the whole process, not just this thread, so the parent notices the failure.
        traceback.print_exc()
        os._exit(1)


def work(store: lowtide.Store, crash: int, thread: int, accounts: int) -> None:
    chance = random.Random(f"{crash}/{thread}")
    number = 0
    while True:
        source, target = any_two_accounts(chance, accounts)
        key = receipt_key(crash, thread, number)
        tx = store.begin()
        try:
            moved = transfer(tx, source, target, chance.randint(1, 50))
            tx.keyspace(RECEIPTS).put(key, b"%s %s %d" % (source, target, moved))
            commit = tx.commit()
        except lowtide.TransientError:
            continue
        # One write of less than a pipe's buffer is never torn, whenever the process dies.
        os.write(1, b"%d %s\n" % (commit, key))
        number += 1


def main() -> None:
    path, crash, threads, accounts = sys.argv[1], *map(int, sys.argv[2:5])
    store = lowtide.open(path, durability="full")
    for thread in range(threads):
        threading.Thread(target=work_or_exit, args=(store, crash, thread, accounts), daemon=True).start()
    # End when the parent does.
    sys.stdin.read()


if __name__ == "__main__":
    main()
