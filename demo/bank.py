"""The data of the demo: accounts, and transfers between them that keep their sum."""

from __future__ import annotations

import random

import lowtide

ACCOUNTS = "accounts"


def account(number: int) -> bytes:
    return b"account-%04d" % number


def open_accounts(store: lowtide.Store, count: int, balance: int) -> None:
    with store.transaction() as tx:
        accounts = tx.keyspace(ACCOUNTS)
        for number in range(count):
            accounts.put(account(number), b"%d" % balance)


def transfer(tx: lowtide.Transaction, source: bytes, target: bytes, amount: int) -> int:
    """Move up to `amount`, without letting an account go below zero. Returns the amount moved."""
    accounts = tx.keyspace(ACCOUNTS)
    has = balance_of(accounts.get(source))
    moved = min(amount, has)
    accounts.put(source, b"%d" % (has - moved))
    accounts.put(target, b"%d" % (balance_of(accounts.get(target)) + moved))
    return moved


def balance_of(value: bytes | None) -> int:
    if value is None:
        raise LookupError("an account is missing")
    return int(value)


def balances(reader: lowtide.Snapshot) -> dict[bytes, int]:
    return {key: int(value) for key, value in reader.keyspace(ACCOUNTS).scan()}


def any_two_accounts(chance: random.Random, count: int) -> tuple[bytes, bytes]:
    source, target = chance.sample(range(count), 2)
    return account(source), account(target)
