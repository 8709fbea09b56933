"""Transfers keep the sum, whatever upkeep runs concurrently. What is rolled back is never seen (I7)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import lowtide
from lowtide import Isolation
from tests.conftest import OpenStore
from tests.isolation.crowd import run_beside, run_together

ACCOUNTS = [b"%02d" % number for number in range(10)]
EACH = 100
TRANSFERS = 25


def open_bank(open_store: OpenStore, **options: object) -> lowtide.Store:
    bank = open_store(collect_threshold=1, **options)
    with bank.transaction() as tx:
        for account in ACCOUNTS:
            tx.keyspace("bank").put(account, b"%d" % EACH)
    return bank


def transfer(tx: lowtide.Transaction, dice: random.Random) -> None:
    bank = tx.keyspace("bank")
    giver, taker = dice.sample(ACCOUNTS, 2)
    amount = dice.randint(1, 20)
    bank.put(giver, b"%d" % (int(bank.get(giver) or b"") - amount))
    bank.put(taker, b"%d" % (int(bank.get(taker) or b"") + amount))


def audit_by_scan(bank: lowtide.Store, level: Isolation, reverse: bool) -> None:
    with bank.transaction(level, read_only=True) as tx:
        entries = list(tx.keyspace("bank").scan(reverse=reverse))
    assert [key for key, _ in entries] == sorted(ACCOUNTS, reverse=reverse)
    assert sum(int(value) for _, value in entries) == EACH * len(ACCOUNTS)


def audit_by_key(bank: lowtide.Store) -> None:
    with bank.snapshot() as snapshot:
        accounts = snapshot.keyspace("bank")
        assert sum(int(accounts.get(account) or b"") for account in ACCOUNTS) == EACH * len(ACCOUNTS)


@pytest.mark.parametrize(
    ("checkpointer", "writing"), [("thread", Isolation.SERIALIZABLE), ("process", Isolation.SNAPSHOT)]
)
def test_the_sum_is_constant_with_a_checkpoint_after_every_commit(
    open_store: OpenStore, writing: Isolation, checkpointer: str
) -> None:
    bank = open_bank(open_store, checkpointer=checkpointer)

    def teller(seed: int) -> Callable[[], None]:
        dice = random.Random(seed)

        def work() -> None:
            for _ in range(TRANSFERS):
                bank.run(lambda tx: transfer(tx, dice), writing, attempts=1000)
                bank.checkpoint()

        return work

    auditors = [
        lambda: audit_by_scan(bank, Isolation.SNAPSHOT_READ, False),
        lambda: audit_by_scan(bank, Isolation.SERIALIZABLE, True),
        lambda: audit_by_key(bank),
    ]
    run_beside(lambda: run_together(teller(1), teller(2)), auditors)
    audit_by_scan(bank, Isolation.SNAPSHOT, False)
    assert bank.stats().last_commit == 1 + 2 * TRANSFERS


def test_the_sum_is_constant_for_a_reader_that_stays_while_everything_moves(open_store: OpenStore) -> None:
    bank = open_bank(open_store, checkpointer="thread")
    dice = random.Random(7)
    readers = [bank.snapshot()]
    before = [dict(readers[0].keyspace("bank").scan())]
    for turn in range(TRANSFERS):
        bank.run(lambda tx: transfer(tx, dice))
        bank.checkpoint()
        if turn % 10 == 0:
            readers.append(bank.snapshot())
            before.append(dict(readers[-1].keyspace("bank").scan()))
        bank.collect_garbage()
        for reader, state in zip(readers, before, strict=True):
            assert dict(reader.keyspace("bank").scan()) == state
            assert sum(map(int, state.values())) == EACH * len(ACCOUNTS)


@pytest.mark.parametrize("level", [each for each in Isolation if each is not Isolation.NONE])
def test_what_is_rolled_back_is_never_seen(open_store: OpenStore, level: Isolation) -> None:
    """Updates, inserts and deletes, rolled back in a loop beside readers of every kind."""
    bank = open_bank(open_store)
    dice = random.Random(3)

    def waver() -> None:
        for turn in range(150):
            tx = bank.begin(level)
            transfer(tx, dice)
            tx.keyspace("bank").put(b"99", b"-1")
            tx.keyspace("bank").delete(ACCOUNTS[turn % len(ACCOUNTS)])
            tx.rollback()
            if turn % 25 == 0:
                bank.checkpoint()

    def look() -> None:
        assert bank.keyspace("bank").get(b"99") is None
        assert bank.keyspace("bank").get(ACCOUNTS[3]) == b"%d" % EACH
        audit_by_scan(bank, Isolation.READ_COMMITTED, False)

    run_beside(waver, [look, lambda: audit_by_scan(bank, level, True)])
    assert bank.stats().last_commit == 1
