"""Threads that move money until they are stopped, and count their acknowledged transfers."""

from __future__ import annotations

import random
import threading
from types import TracebackType

import lowtide
from demo.bank import any_two_accounts, transfer
from demo.checks import Settings

TELLERS = "tellers"


def teller_key(number: int) -> bytes:
    return b"teller-%02d" % number


class Tellers:
    """Each teller writes its own count of transfers in the transaction that moves the money.

    So the store can be asked afterwards whether it holds exactly the commits that were acknowledged.
    """

    def __init__(self, store: lowtide.Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._stop = threading.Event()
        # One slot per thread, written only by that thread, so no lock is needed.
        self.acknowledged = [0] * settings.threads
        self._attempts = [0] * settings.threads
        self._gave_up = [0] * settings.threads
        self.errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"teller-{number}", daemon=True)
            for number in range(settings.threads)
        ]

    @property
    def commits(self) -> int:
        return sum(self.acknowledged)

    @property
    def retried(self) -> int:
        """Conflicts that `run` turned into another attempt; while tellers work, attempts under way are counted too."""
        return max(0, sum(self._attempts) - self.commits - self.gave_up)

    @property
    def gave_up(self) -> int:
        """Transfers that failed because every attempt of `run` lost a conflict."""
        return sum(self._gave_up)

    def __enter__(self) -> Tellers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        chance = random.Random(self._settings.seed * 1_000 + number)
        try:
            while not self._stop.is_set():
                self._transfer_once(number, chance)
        except Exception as error:
            # Shown as a failed check; an exception that only ended its thread would go unnoticed.
            self.errors.append(error)

    def _transfer_once(self, number: int, chance: random.Random) -> None:
        source, target = any_two_accounts(chance, self._settings.accounts)
        amount = chance.randint(1, 50)
        done = b"%d" % (self.acknowledged[number] + 1)

        def move(tx: lowtide.Transaction) -> None:
            self._attempts[number] += 1
            transfer(tx, source, target, amount)
            tx.keyspace(TELLERS).put(teller_key(number), done)

        try:
            self._store.run(move)
        except lowtide.TransientError:
            self._gave_up[number] += 1
        else:
            self.acknowledged[number] += 1


def recorded(reader: lowtide.Snapshot, threads: int) -> list[int]:
    """How many transfers of each teller the store holds."""
    rows = dict(reader.keyspace(TELLERS).scan())
    return [int(rows.get(teller_key(number), b"0")) for number in range(threads)]
