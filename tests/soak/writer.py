"""A process that writes to a store that other processes also write to, and records what it did and saw.

``python -m tests.soak.writer DIRECTORY NAME SEED SECONDS``. Two threads run registers, lists and transfers at SNAPSHOT
and SERIALIZABLE, and documents with a unique index. It ends after SECONDS, or is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Final

import lowtide
from lowtide.audit import Recorder

LEVELS: Final = ("snapshot", "serializable")
ACCOUNTS: Final = [f"account {number}" for number in range(6)]
REGISTERS: Final = [f"register {number}" for number in range(6)]
LISTS: Final = range(4)
ERA: Final = 10.0
"""Seconds after which all processes begin new lists. A transaction reads the lists that it appends to, so without a
bound the history would grow with the square of their length."""
BALANCE: Final = 100
SLOTS: Final = 12
"""The values of the unique index."""
COMPACTIONS: Final = 0.002
"""How often a process compacts the store before a transaction."""


def keyspace_of(level: str) -> str:
    """Where transactions of a level work, so that each level can be audited by itself."""
    return f"audited {level}"


def prepare(store: lowtide.Store) -> None:
    """What all processes begin with."""
    for level in LEVELS:
        with store.transaction() as tx:
            bank = tx.keyspace(f"bank {level}")
            for account in ACCOUNTS:
                bank.put(account.encode(), str(BALANCE).encode())
    store.collection("slots").create_index("slot", unique=True)


class Writer:
    """One thread: a random generator, a recorder for each level, and a ledger of acknowledged changes."""

    def __init__(self, store: lowtide.Store, directory: Path, name: str, seed: str) -> None:
        self.store = store
        self.name = name
        self.random = random.Random(seed)
        self.recorders = {
            level: Recorder(directory / f"{level}-{name}.jsonl", keyspace=keyspace_of(level), prefix=f"{name}:")
            for level in LEVELS
        }
        self.ledger = os.open(directory / f"ledger-{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.counter = 0

    def note(self, *entry: object) -> None:
        os.write(self.ledger, json.dumps(entry).encode() + b"\n")

    def step(self) -> None:
        """Run one transaction of a random kind; a refused one is not retried. Now and then run a compaction, during
        which other processes are killed."""
        self.counter += 1
        if self.random.random() < COMPACTIONS:
            self.store.compact()
        work = self.random.choice([self.registers, self.lists, self.lists, self.transfer, self.document])
        with contextlib.suppress(lowtide.TransientError):
            work(self.random.choice(LEVELS))

    def registers(self, level: str) -> None:
        with self.recorders[level].begin(self.store, level, session=f"{self.name} {level}") as tx:
            for key in self.random.sample(REGISTERS, 2):
                tx.get(key)
            tx.put(self.random.choice(REGISTERS), f"{self.name}:{self.counter}")

    def lists(self, level: str) -> None:
        with self.recorders[level].begin(self.store, level, session=f"{self.name} {level}") as tx:
            era = int(time.time() / ERA)
            for number in self.random.sample(LISTS, 2):
                tx.append(f"list {number} of {era}", f"{self.name}:{self.counter}")

    def transfer(self, level: str) -> None:
        """Move money, and check that the total is unchanged."""
        with self.store.transaction(level) as tx:
            bank = tx.keyspace(f"bank {level}")
            balances = {key: int(value) for key, value in bank.scan()}
            if sum(balances.values()) != BALANCE * len(ACCOUNTS):
                self.note("broken", f"the bank has {balances}")
            source, target = self.random.sample(sorted(balances), 2)
            bank.put(source, str(balances[source] - 1).encode())
            bank.put(target, str(balances[target] + 1).encode())

    def document(self, level: str) -> None:
        """Insert a document with a slot that no other one may have, or delete one."""
        identity, slot = f"{self.name}:{self.counter}", self.random.randrange(SLOTS)
        try:
            with self.store.transaction(level) as tx:
                slots = tx.collection("slots")
                found = slots.find_one({"slot": slot})
                if found is None:
                    slots.insert_one({"_id": identity, "slot": slot})
                    change = "insert", identity
                else:
                    slots.delete_one({"_id": found["_id"]})
                    change = "delete", found["_id"]
                self.note("try", *change)
        except lowtide.errors.DuplicateKeyError:
            return
        self.note("done", *change)


def main(directory: Path, name: str, seed: str, seconds: float) -> None:
    store = lowtide.open(directory / "store", monitor_interval=0.5, checkpoint_bytes=1 << 18, segment_bytes=1 << 16)
    writers = [Writer(store, directory, f"{name}.{number}", f"{seed} {number}") for number in range(2)]
    until = time.monotonic() + seconds
    broken: list[BaseException] = []

    def work(writer: Writer) -> None:
        try:
            while time.monotonic() < until and not broken:
                writer.step()
        except BaseException as error:
            writer.note("broken", repr(error))
            broken.append(error)
            raise

    threads = [threading.Thread(target=work, args=(each,)) for each in writers]
    print(os.getpid(), flush=True)
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    store.close()
    if broken:
        raise broken[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))
