"""Streams against a model: whatever is committed, planned, repeated, stopped and lost from memory, the sink has the
snapshot and every later change, once, and the changes of each key are in commit order."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lowtide
from lowtide.spark import changes
from tests.unit.feed.stores import SHORT
from tests.unit.spark.streams import Query

KEYS = st.integers(0, 5)
CITIES = st.sampled_from(["Oslo", "Bergen", "Voss"])
WRITES = st.dictionaries(KEYS, st.none() | CITIES, min_size=1, max_size=4)
LIMITS = st.sampled_from(
    [{}, {"maxRowsPerTrigger": 1}, {"maxRowsPerTrigger": 3}, {"maxCommitsPerTrigger": 2}, {"maxBytesPerTrigger": 60}]
)
STARTS = st.sampled_from([{}, {}, {"startingVersion": 1}, {"startingVersion": "latest"}])
Change = tuple[int, str, str | None]
"""Commit, kind and city of a row."""


class Streaming(RuleBasedStateMachine):
    """One store, one query on it, and the model of both."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.directory = Path(tempfile.mkdtemp())
        self.state: dict[int, str] = {}
        self.states: dict[int, dict[int, str]] = {0: {}}
        """The documents as each commit left them."""
        self.changes: list[tuple[int, Change]] = []
        """By key, in commit order."""

    @initialize(images=st.booleans(), limits=LIMITS, start=STARTS, early=st.lists(WRITES, max_size=3))
    def begin(
        self, images: bool, limits: dict[str, Any], start: dict[str, Any], early: list[dict[int, str | None]]
    ) -> None:
        self.images = images
        self.patch.setattr(changes, "SMALL", 1 << 9)
        self.store = lowtide.open(
            self.directory / "store", durability="relaxed", before_images=images, monitor_interval=3600, **SHORT
        )
        if "startingVersion" in start:
            self.store.consumer("keeps all", since=0)
        for each in early:
            self.write(each)
        self.start = start.get("startingVersion")
        self.query = Query(self.store.path, partitions=3, **limits, **start)

    @rule(cities=WRITES)
    def write(self, cities: dict[int, str | None]) -> None:
        number = len(self.states)  # so that no document is replaced by an equal one, which would be no change
        writes = {key: None if city is None else f"{city} {number}" for key, city in cities.items()}
        with self.store.transaction() as tx:
            users = tx.collection("users")
            tx.collection("others").replace_one({"_id": 1}, {"n": number}, upsert=True)
            for key, city in writes.items():
                if city is None:
                    users.delete_one({"_id": key})
                else:
                    users.replace_one({"_id": key}, {"city": city}, upsert=True)
        commit = self.store.stats().last_commit
        for key, city in writes.items():
            before = self.state.pop(key, None)
            if city is not None:
                self.state[key] = city
            if before is None and city is not None:
                self.changes.append((key, (commit, "insert", city)))
            elif before is not None and city is None:
                self.changes.append((key, (commit, "delete", before if self.images else None)))
            elif before is not None and city is not None and self.images:
                self.changes.append((key, (commit, "update_preimage", before)))
            if before is not None and city is not None:
                self.changes.append((key, (commit, "update_postimage", city)))
        self.states[commit] = dict(self.state)

    @rule()
    def write_elsewhere(self) -> None:
        """Write more than a segment of the log, which is removed if no consumer needs it."""
        noise = self.store.keyspace("noise")
        for _ in range(25):
            noise.put(b"key", b"x" * 200)
        self.states[self.store.stats().last_commit] = dict(self.state)

    @rule()
    def keep_house(self) -> None:
        self.store.checkpoint()
        self.store.collect_garbage()

    @rule()
    def plan(self) -> None:
        self.query.plan()

    @precondition(lambda self: len(self.query.offsets) > self.query.committed)
    @rule(done=st.booleans())
    def deliver(self, done: bool) -> None:
        """A batch that is not done is run again later, and must be the same."""
        self.query.deliver()
        self.query.committed += done

    @rule()
    def restart(self) -> None:
        self.query.restart()

    @rule()
    def plan_in_vain(self) -> None:
        """The process ends between the look for an offset and the checkpoint."""
        if self.query.plan():
            self.query.offsets.pop()
            if not self.query.offsets:
                self.query.restart()

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if hasattr(self, "query"):
            self.check(self.query.committed)

    def check(self, done: int) -> None:
        if not self.query.offsets or not done:
            return
        since, version, whole = self.place(done)
        found: dict[int, list[Change]] = defaultdict(list)
        snapshot: dict[int, str] = {}
        for batch in self.query.batches[:done]:
            keys: set[int] = set()
            for part in batch:
                here = {row["_id"] for row in part}
                assert not here & keys, "a key is in one part"
                keys |= here
                for row in part:
                    if self.start is None and row["_commit_version"] == since:
                        assert row["_change_type"] == "insert"
                        assert row["_id"] not in snapshot
                        snapshot[row["_id"]] = row["city"]
                    else:
                        change = row["_commit_version"], row["_change_type"], row["city"]
                        found[row["_id"]].append(change)
        expected: dict[int, list[Change]] = defaultdict(list)
        for key, change in self.changes:
            if since < change[0] <= version:
                expected[key].append(change)
        assert found == expected
        if self.start is None:
            assert snapshot.items() <= self.states[since].items()
            assert not whole or snapshot == self.states[since]

    def place(self, done: int) -> tuple[int, int, bool]:
        offset = json.loads(self.query.offsets[done - 1])
        return offset["since"], offset["version"], "after" not in offset

    def teardown(self) -> None:
        if hasattr(self, "query"):
            self.query.run()
            self.check(self.query.committed)
            assert self.query.version >= max((change[0] for _, change in self.changes), default=0)
            self.query.stream.stop()
            self.store.close()
            self.patch.undo()
        shutil.rmtree(self.directory)


Streaming.TestCase.settings = settings(max_examples=10, stateful_step_count=25, deadline=None)
TestStreaming = Streaming.TestCase
