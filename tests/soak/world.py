"""The content of the soak's store, how it is changed, and its invariants at every instant.

*Bank*: transfers between accounts, so the total stays. *Batch*: all rows are written together, so all are equal.
*Duty*: of each pair one is on; a SERIALIZABLE transaction turns one off only if it sees the other on. *Counters*: each
thread counts its commits, in two keyspaces, and the last 32 of them have a row each in *slots*, so a thread's number
says what its rows are. *Loose*: the same count at isolation NONE, where each write stands alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from dataclasses import dataclass

import lowtide
from lowtide import Snapshot, Transaction
from tests.soak.telling import Broken

ACCOUNTS = 40
TOTAL = ACCOUNTS * 1000
BATCH = 50
PAIRS = 3
SLOTS = 64
KEPT = 32
LEVELS = ("snapshot", "snapshot", "serializable", "serializable", "read_committed", "snapshot_read", "none")
"""The level of each writing thread, by its number."""

CONSUMERS = ("mirror", "index")


def make(store: lowtide.Store) -> None:
    """Put the first rows into a new store, and create its consumers at the beginning."""
    for name in CONSUMERS:
        store.consumer(name, since=0 if store.stats().last_commit == 0 else None)
    with store.transaction() as tx:
        if tx.keyspace("bank").get(b"0000") is not None:
            return
        for number in range(ACCOUNTS):
            tx.keyspace("bank").put(b"%04d" % number, b"1000")
        for number in range(BATCH):
            tx.keyspace("batch").put(b"%04d" % number, b"0")
        for number in range(2 * PAIRS):
            tx.keyspace("duty").put(b"%d%s" % (number // 2, b"ab"[number % 2 : number % 2 + 1]), b"on")
        for thread, level in enumerate(LEVELS):
            for name in ("loose",) if level == "none" else ("counter", "mirror"):
                tx.keyspace(name).put(b"%d" % thread, b"0")


@dataclass(frozen=True, slots=True)
class Seen:
    """One instant: its timestamp, each thread's number, and a digest of every row."""

    ts: int
    numbers: dict[int, int]
    digest: str


def look(snapshot: Snapshot | Transaction, ts: int) -> Seen:
    """Read everything and check what must be true of it."""
    rows = {
        name: list(snapshot.keyspace(name).scan())
        for name in ("bank", "batch", "duty", "counter", "mirror", "slots", "loose")
    }
    _check_rows(rows, ts)
    numbers = {int(key): int(value) for key, value in (*rows["counter"], *rows["loose"])}
    return Seen(ts, numbers, hashlib.sha256(repr(rows).encode()).hexdigest()[:16])


def _check_rows(rows: dict[str, list[tuple[bytes, bytes]]], ts: int) -> None:
    total = sum(int(value) for _, value in rows["bank"])
    if len(rows["bank"]) != ACCOUNTS or total != TOTAL:
        raise Broken("the bank's total stays", f"{total} in {len(rows['bank'])} accounts at commit {ts}")
    values = {value for _, value in rows["batch"]}
    if len(rows["batch"]) != BATCH or len(values) != 1:
        raise Broken("a batch is there as a whole", f"{len(rows['batch'])} rows, {values} at commit {ts}")
    on = {key[:1] for key, value in rows["duty"] if value == b"on"}
    if len(on) != PAIRS:
        raise Broken("one of each pair is on duty", f"only {on} at commit {ts}: {rows['duty']}")
    if rows["counter"] != rows["mirror"]:
        raise Broken("keyspaces change together", f"{rows['counter']} and {rows['mirror']} at commit {ts}")
    expected = {slot for key, value in rows["counter"] for slot in _slots_of(int(key), int(value))}
    found = {(key, int(value.split(b".")[0])) for key, value in rows["slots"]}
    if found != expected:
        raise Broken("a thread's rows are those of its number", f"{sorted(found ^ expected)} at commit {ts}")


def _slots_of(thread: int, number: int) -> list[tuple[bytes, int]]:
    return [(_slot(thread, each), each) for each in range(max(1, number - KEPT + 1), number + 1)]


def _slot(thread: int, number: int) -> bytes:
    return b"%d/%02d" % (thread, number % SLOTS)


class _Undone(Exception):
    pass


def change(tx: Transaction, thread: int, number: int, chance: random.Random) -> None:
    """What the thread's commit ``number`` does."""
    counter = tx.keyspace("counter")
    if (found := counter.get(b"%d" % thread)) != b"%d" % (number - 1):
        raise Broken("a thread reads its own last commit", f"thread {thread} found {found!r} before {number}")
    for name in ("counter", "mirror"):
        tx.keyspace(name).put(b"%d" % thread, b"%d" % number)
    slots = tx.keyspace("slots")
    slots.put(_slot(thread, number), b"%d." % number + b"x" * chance.choice((0, 20, 100, 600)))
    if number > KEPT:
        slots.delete(_slot(thread, number - KEPT))
    if chance.random() < 0.2:
        with contextlib.suppress(_Undone), tx.savepoint():
            tx.keyspace("bank").put(b"0000", b"-1")
            counter.delete(b"%d" % thread)
            raise _Undone
        if counter.get(b"%d" % thread) != b"%d" % number:
            raise Broken("a savepoint undoes what is inside and nothing else", f"thread {thread}, {number}")
    if LEVELS[thread] == "snapshot":
        _transfer(tx, chance)
        if chance.random() < 0.05:
            for row in range(BATCH):
                tx.keyspace("batch").put(b"%04d" % row, b"%d/%d" % (thread, number))
    elif LEVELS[thread] == "serializable":
        _take_turns(tx, chance)


def _transfer(tx: Transaction, chance: random.Random) -> None:
    bank = tx.keyspace("bank")
    source, target = (b"%04d" % number for number in chance.sample(range(ACCOUNTS), 2))
    amount = chance.randrange(1, 50)
    bank.put(source, b"%d" % (int(bank.get(source) or b"0") - amount))
    bank.put(target, b"%d" % (int(bank.get(target) or b"0") + amount))


def _take_turns(tx: Transaction, chance: random.Random) -> None:
    """If two threads each turned one off, seeing the other on, both would be off: write skew."""
    pair = b"%d" % chance.randrange(PAIRS)
    duty = tx.keyspace("duty")
    on = [key for key, value in duty.scan(prefix=pair) if value == b"on"]
    if len(on) == 2:
        duty.put(chance.choice(on), b"off")
    else:
        duty.put(pair + b"a", b"on")
        duty.put(pair + b"b", b"on")
