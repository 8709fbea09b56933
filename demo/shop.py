"""The data of the shop, and its buyers. Items in stock and items sold always add up to the same total."""

from __future__ import annotations

import random
import threading
from types import TracebackType

import lowtide
from demo.checks import Settings

ITEMS = 24
IN_STOCK = 100_000
STOCK, SOLD = "stock", "sold"
PRICES, ORDERS = "prices", "orders"

ATTEMPTS = 1_000

#: Bytes of log to keep for the archive, which starts only after the first act.
FEED_BYTES = 1 << 30


def item(number: int) -> bytes:
    return b"item-%02d" % number


def furnish(store: lowtide.Store) -> None:
    """Fill the shelves."""
    with store.transaction() as tx:
        for number in range(ITEMS):
            tx.keyspace(STOCK).put(item(number), b"%d" % IN_STOCK)
            tx.keyspace(SOLD).put(item(number), b"0")
            tx[PRICES].insert_one({"_id": number, "name": f"item {number}", "cents": 250 + 45 * number})


def buy(tx: lowtide.Transaction, buyer: int, order: int, number: int, count: int) -> None:
    """Sell some units of an item, and write the order."""
    stock, sold = tx.keyspace(STOCK), tx.keyspace(SOLD)
    left = int(stock.get(item(number)) or b"0")
    price = tx[PRICES].find_one({"_id": number})
    taken = min(count, left)
    stock.put(item(number), b"%d" % (left - taken))
    sold.put(item(number), b"%d" % (int(sold.get(item(number)) or b"0") + taken))
    cents = 0 if price is None else price["cents"] * taken
    tx[ORDERS].insert_one({"_id": f"{buyer}-{order}", "item": number, "count": taken, "cents": cents})


def counts(reader: lowtide.Snapshot, keyspace: str) -> dict[bytes, int]:
    return {key: int(value) for key, value in reader.keyspace(keyspace).scan()}


def adds_up(reader: lowtide.Snapshot) -> bool:
    """Whether each item is either in stock or sold in this snapshot."""
    stock, sold = counts(reader, STOCK), counts(reader, SOLD)
    return stock.keys() == sold.keys() and all(stock[key] + sold[key] == IN_STOCK for key in stock)


def prices(reader: lowtide.Snapshot) -> dict[int, int]:
    return {each["_id"]: each["cents"] for each in reader[PRICES].find()}


class Buyers:
    """Threads that buy until they are stopped. Each purchase is a serializable transaction. ``first`` is the number of
    the first buyer, and ``pause`` the seconds that each waits between two purchases."""

    def __init__(self, store: lowtide.Store, settings: Settings, first: int = 0, pause: float = 0.0) -> None:
        self._store = store
        self._settings = settings
        self._first = first
        self._pause = pause
        self._stop = threading.Event()
        # One slot per thread, written only by that thread, so no lock is needed.
        self.acknowledged = [0] * settings.threads
        self._attempts = [0] * settings.threads
        self.errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"buyer-{number}", daemon=True)
            for number in range(settings.threads)
        ]

    @property
    def purchases(self) -> int:
        return sum(self.acknowledged)

    @property
    def retried(self) -> int:
        """Purchases that lost a conflict and were retried."""
        return max(0, sum(self._attempts) - self.purchases)

    def __enter__(self) -> Buyers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        chance = random.Random(self._settings.seed * 1_000 + self._first + number)
        try:
            while not self._stop.is_set():
                self._buy_once(number, chance)
                self._stop.wait(self._pause)
        except Exception as error:
            # Shown as a failed check; an exception that only ended its thread would go unnoticed.
            self.errors.append(error)

    def _buy_once(self, number: int, chance: random.Random) -> None:
        wanted, count = chance.randrange(ITEMS), chance.randint(1, 3)
        order = self.acknowledged[number]

        def purchase(tx: lowtide.Transaction) -> None:
            self._attempts[number] += 1
            buy(tx, self._first + number, order, wanted, count)

        self._store.run(purchase, isolation="serializable", attempts=ATTEMPTS)
        self.acknowledged[number] += 1
