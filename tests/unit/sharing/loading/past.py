"""A random past of a collection: writes, concurrent bulk loads, and the content at each commit."""

from __future__ import annotations

import random
from typing import Any

import pytest

import lowtide
from lowtide.sharing.loading.bulk import BulkLoad
from lowtide.sharing.loading.job import How
from tests.support.parts import parts_of
from tests.unit.sharing.loading.jobs import load

Documents = dict[int, dict[str, Any]]
KEPT: dict[str, Any] = {"feed_bytes": 1 << 30, "monitor_interval": 3600}
"""Options of a store whose log stays."""


def settle(store: lowtide.Store) -> None:
    """Wait until what loads have left is emptied."""
    parts_of(store).loader.finish()


def last(store: lowtide.Store) -> int:
    return store.stats().last_commit


class Past:
    """A store, what one of its collections had at each commit, and what happens to it."""

    def __init__(self, store: lowtide.Store, name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.name = name
        self.chance = random.Random(seed)
        self.states: dict[int, Documents] = {0: {}}
        self.loads: list[int] = []
        original = BulkLoad._catch_up

        def beside(*arguments: Any, **more: Any) -> Any:
            for _ in range(self.chance.randrange(3)):
                self.write()
            return original(*arguments, **more)

        monkeypatch.setattr(BulkLoad, "_catch_up", beside)

    @property
    def now(self) -> Documents:
        return {each["_id"]: each for each in self.store[self.name].find()}

    def note(self) -> None:
        """What all commits since the last note have left is what was there before, but for the last one."""
        done, upto = max(self.states), last(self.store)
        for ts in range(done + 1, upto):
            self.states[ts] = self.states[done]
        self.states[upto] = self.now

    def write(self) -> None:
        self.note()
        number = len(self.states)
        with self.store.transaction() as tx:
            for _ in range(self.chance.randrange(1, 4)):
                key = self.chance.randrange(12)
                if self.chance.randrange(3):
                    tx[self.name].update_one({"_id": key}, {"$set": {"city": f"w{number}"}}, upsert=True)
                else:
                    tx[self.name].delete_one({"_id": key})
        self.note()

    def load(self) -> None:
        """A bulk load; some documents of it are equal to those that are there."""
        how: How = self.chance.choice(("append", "upsert", "delete", "overwrite"))
        number, there = len(self.states), self.now
        chosen = range(50 * number, 50 * number + 5) if how == "append" else self.chance.sample(range(12), 6)
        rows: list[dict[str, Any]] = [{"_id": key, "city": f"l{number}"} for key in chosen]
        rows = [each if self.chance.randrange(2) else there.get(each["_id"], each) for each in rows]
        ts = load(self.store, how, rows, collection=self.name, bulk_bytes=0).ts
        settle(self.store)
        done = max(self.states)
        for each in range(done + 1, ts):
            self.states[each] = self.states[done]
        for each in range(ts, last(self.store) + 1):
            self.states[each] = self.now
        self.loads.append(ts)

    def happen(self) -> None:
        """Run some writes and loads. The last two are a load and a write."""
        for _ in range(8):
            (self.load if self.chance.randrange(3) == 0 else self.write)()
        self.load()
        self.write()
