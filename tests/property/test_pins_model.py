"""Pins against a model: whatever is committed, checkpointed, swept or reopened, a pin shows the content of its instant.
After a collection the history holds exactly the versions that a pin or snapshot sees."""

from __future__ import annotations

import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import lowtide
from tests.support.clocks import ManualClock

KEYS = st.sampled_from([b"a", b"b"])
SPACES = st.sampled_from(["one", "two"])
NAMES = st.sampled_from(["p", "q", "r"])
Key = tuple[str, bytes]


class PinsModel(RuleBasedStateMachine):
    """``states[ts]`` is the content after commit ``ts``; ``pins`` are (ts, scope, end) by name."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="lowtide-pins-"))
        self.clock = ManualClock()
        self.states: list[dict[Key, bytes]] = [{}]
        self.changes: dict[Key, list[int]] = {}
        self.pins: dict[str, tuple[int, str | None, float]] = {}

    @initialize()
    def open(self) -> None:
        self.store = lowtide.open(
            self.directory / "store",
            durability="relaxed",
            checkpointer="thread",
            clock=self.clock,
            monitor_interval=3600,
            map_size=1 << 20,
        )

    def living(self) -> dict[str, tuple[int, str | None, float]]:
        return {name: pin for name, pin in self.pins.items() if pin[2] > self.clock.now}

    @rule(space=SPACES, key=KEYS, value=st.none() | st.binary(max_size=3))
    def write(self, space: str, key: bytes, value: bytes | None) -> None:
        keyspace = self.store.keyspace(space)
        state = dict(self.states[-1])
        if value is None:
            keyspace.delete(key)
            state.pop((space, key), None)
        else:
            keyspace.put(key, value)
            state[space, key] = value
        self.states.append(state)
        self.changes.setdefault((space, key), []).append(len(self.states) - 1)

    @rule(name=NAMES, ttl=st.integers(1, 20), scope=st.none() | SPACES)
    def pin(self, name: str, ttl: int, scope: str | None) -> None:
        if name not in self.living():
            ts = self.store.pin(name, ttl, keyspaces=scope).ts
            assert ts == len(self.states) - 1
            self.pins[name] = (ts, scope, self.clock.now + ttl)

    @rule(name=NAMES, ttl=st.integers(1, 20))
    def renew(self, name: str, ttl: int) -> None:
        for pin in self.store.pins():
            if pin.name == name:
                pin.renew(ttl)
                self.pins[name] = (*self.pins[name][:2], self.clock.now + ttl)

    @rule(name=NAMES)
    def unpin(self, name: str) -> None:
        removed = self.store.unpin(name)
        assert removed or name not in self.living()
        self.pins.pop(name, None)

    @rule(seconds=st.integers(1, 15))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def collect(self) -> None:
        self.store.checkpoint()
        self.store.collect_garbage()
        needed = 0
        for key, stamps in self.changes.items():
            for begin, end in pairwise(stamps):
                seen = any(begin <= ts < end and scope in (None, key[0]) for ts, scope, _ in self.living().values())
                needed += seen and key in self.states[begin]
        assert self.store.stats().history == needed

    @invariant()
    def every_pin_sees_its_instant(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {pin.name: pin.ts for pin in self.store.pins()} == {name: pin[0] for name, pin in self.living().items()}
        for name, (ts, scope, _) in self.living().items():
            with self.store.snapshot(at=name) as snapshot:
                for space in ("one", "two") if scope is None else (scope,):
                    expected = sorted((key, value) for (at, key), value in self.states[ts].items() if at == space)
                    assert list(snapshot.keyspace(space).scan()) == expected

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        shutil.rmtree(self.directory)


TestPinsModel = PinsModel.TestCase
TestPinsModel.settings = settings(max_examples=25, stateful_step_count=40, suppress_health_check=list(HealthCheck))
