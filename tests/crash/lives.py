"""The life of a store with everything in it, and what is to be found of it after any end.

Commits of all sizes, pins, consumers, before images, snapshots that fill the history, checkpoints in a thread or in
the helper process, collections, a backup, a compaction, a restart. The trace notes what is certain from then on: a
durable commit, a pin, a consumer's place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.base.environment import Base
from tests.crash.stores import SMALL, Changes, Content, Durability, Model, both, commit, content_of
from tests.support.disks import FaultyDisk, RecordingDisk
from tests.support.parts import parts_of

RICH: dict[str, Any] = {**SMALL, "before_images": True, "sync_interval": 1000, "monitor_interval": 1000}
FOREVER = 10.0**9

Feed = list[tuple[int, str, bytes, str, bytes | None, bytes | None]]


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that can be read of a store."""

    last_commit: int
    content: Content
    timestamps: dict[tuple[str, bytes], int]
    pins: dict[str, tuple[int, Content]]
    consumers: dict[str, tuple[int, Feed]]


def picture_of(store: lowtide.Store) -> Picture:
    content = content_of(store)
    timestamps = {
        (name, key): store.inspect_key(name, key).versions[0].begin for name, rows in content.items() for key in rows
    }
    pins = {pin.name: (pin.ts, _content_at(store, pin)) for pin in store.pins()}
    consumers = {}
    for state in store.consumers():
        assert not state.lost, state
        consumers[state.name] = (state.position, feed_of(store, state.position))
    return Picture(store.stats().last_commit, content, timestamps, pins, consumers)


def _content_at(store: lowtide.Store, pin: lowtide.Pin) -> Content:
    with store.snapshot(at=pin) as snapshot:
        found = {name: dict(snapshot.keyspace(name).scan()) for name in pin.keyspaces or store.keyspaces()}
    return {name: rows for name, rows in found.items() if rows}


def feed_of(store: lowtide.Store, since: int) -> Feed:
    return [
        (each.ts, each.keyspace, each.key, each.kind, each.value, each.before)
        for each in store.changes(since, before=True)
    ]


class History(Model):
    """A model that also knows what the feed must show."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Changes] = [{}]

    def apply(self, changes: Changes) -> None:
        super().apply(changes)
        self.commits.append(changes)

    def feed(self, since: int, until: int) -> Feed:
        found: Feed = []
        for ts in range(since + 1, until + 1):
            before = self.states[ts - 1]
            for name, rows in self.commits[ts].items():
                for key, value in rows.items():
                    old = before.get(name, {}).get(key)
                    if value is not None or old is not None:
                        kind = "delete" if value is None else "insert" if old is None else "update"
                        found.append((ts, name, key, kind, value, old))
        return found

    def changed_at(self, name: str, key: bytes, until: int) -> int:
        return max(ts for ts in range(1, until + 1) if key in self.commits[ts].get(name, {}))


@dataclass(slots=True)
class Certain:
    """What must be there, as the notes of a trace up to a crash tell it."""

    durable: int = 0
    pins: dict[str, tuple[int, tuple[str, ...] | None]] | None = None
    maybe: frozenset[str] = frozenset()
    places: dict[str, int] | None = None


def certain_from(notes: tuple[object, ...]) -> Certain:
    known = Certain(0, {}, frozenset(), {})
    assert known.pins is not None
    assert known.places is not None
    for note in notes:
        match note:
            case ("durable", int(ts)):
                known.durable = max(known.durable, ts)
            case ("pinned", str(name), int(ts), keyspaces):
                known.pins[name] = (ts, keyspaces)
            case ("unpinning", str(name)):
                known.pins.pop(name, None)
            case ("place", str(name), int(position)):
                known.places[name] = position
            case ("perhaps", *names):
                known.maybe |= frozenset(names)
    return known


class Life:
    """A store on a recording disk. Each method does one thing and notes what is certain after it."""

    def __init__(self, path: Path, durability: Durability, **options: Any) -> None:
        self.path = path
        self.options: dict[str, Any] = {**RICH, "durability": durability, **options}
        self.model = History()
        self.disk = RecordingDisk(path / "base" / "data.mdb")
        self.faults = FaultyDisk(self.disk)
        self.store = lowtide.open(path, **self.options, disk=self.faults)
        self.disk.note(("durable", 0))

    def commit(self, number: int, size: int = 0) -> None:
        changes = both(number, size)
        ts = commit(self.store, changes)
        self.model.apply(changes)
        assert ts == len(self.model.states) - 1
        if self.options["durability"] == "full":
            self.disk.note(("durable", ts))

    def sync(self) -> None:
        parts_of(self.store).log.sync()
        self.disk.note(("durable", self.store.stats().last_commit))

    def checkpoint(self) -> None:
        self.store.checkpoint()
        self.disk.note(("durable", self.store.stats().boundary))

    def pin(self, name: str, keyspaces: list[str] | None = None) -> None:
        self.disk.note(("perhaps", name))
        pin = self.store.pin(name, FOREVER, keyspaces=keyspaces)
        self.disk.note(("pinned", name, pin.ts, pin.keyspaces))
        self.disk.note(("durable", pin.ts))

    def unpin(self, name: str) -> None:
        self.disk.note(("unpinning", name))
        self.store.unpin(name)

    def consumer(self, name: str) -> None:
        self.disk.note(("perhaps", name))
        self.store.consumer(name, since=self.store.stats().last_commit)
        self.disk.note(("place", name, self.store.stats().last_commit))

    def ack(self, name: str, ts: int) -> None:
        self.store.consumer(name).ack(ts)
        self.disk.note(("place", name, ts))

    def restart(self) -> None:
        self.store.close()
        self.disk.note(("durable", len(self.model.states) - 1))
        self.store = lowtide.open(self.path, **self.options, disk=self.faults)

    def live(self) -> None:
        """All of it."""
        for number, size in enumerate([100, 700, 20]):
            self.commit(number, size)
        self.consumer("mirror")
        self.pin("old")
        self.commit(3, 1500)
        with self.store.snapshot():
            for number, size in enumerate([1200, 30, 900], 4):
                self.commit(number, size)
            self.checkpoint()
            self.ack("mirror", 5)
            self.commit(7, 1300)
            self.checkpoint()
        self.store.collect_garbage()
        self.store.backup(self.path.with_name(f"{self.path.name} backup"))
        self.sync()
        self.pin("left only", ["left"])
        for number, size in enumerate([600, 1500], 8):
            self.commit(number, size)
        self.unpin("old")
        self.ack("mirror", 9)
        self.checkpoint()
        self.store.collect_garbage()
        self.restart()
        self.commit(10, 1100)
        self.consumer("late")
        self.store.compact()
        self.disk.record()
        self.commit(11, 200)
        self.commit(12, 1800)
        self.store.close()

    def check(self, path: Path, known: Certain, how: str) -> None:
        """Open the store in ``path`` twice: what is certain is there, nothing else is, and both times are the same."""
        pictures = []
        for _ in range(2):
            with lowtide.open(path, **{**self.options, "durability": "relaxed", "checkpointer": "thread"}) as store:
                pictures.append(picture_of(store))
                assert pictures[-1].pins or store.stats().history == 0, how
                assert store.verify().ok, (how, store.verify())
        for each in fields(Picture):  # one by one, so that a failure says which
            assert getattr(pictures[0], each.name) == getattr(pictures[1], each.name), (how, each.name)
        self.compare(pictures[0], known, how)

    def compare(self, found: Picture, known: Certain, how: str) -> None:
        last, model = found.last_commit, self.model
        assert known.durable <= last < len(model.states), how
        assert found.content == model.states[last], how
        for (name, key), ts in found.timestamps.items():
            assert ts == model.changed_at(name, key, last), (how, name, key)
        assert known.pins is not None
        assert known.places is not None
        for pin, (ts, _) in known.pins.items():
            assert found.pins[pin][0] == ts, (how, pin)
        for pin, (ts, content) in found.pins.items():
            assert pin in known.maybe, (how, pin)
            keyspaces = known.pins[pin][1] if pin in known.pins else (("left",) if pin == "left only" else None)
            state = model.states[ts]
            assert content == {name: state[name] for name in state if keyspaces is None or name in keyspaces}, how
        for name, place in known.places.items():
            assert found.consumers[name][0] >= min(place, last), (how, name)
        for name, (place, feed) in found.consumers.items():
            assert name in known.maybe, (how, name)
            assert feed == model.feed(place, last), (how, name)


@contextlib.contextmanager
def every_lmdb_commit(disk: RecordingDisk) -> Iterator[None]:
    """Have the disk look at the base after each LMDB commit of this process: none is then taken for part of another."""
    real = Base._write

    def write(self: Base, change: Any, refuses: bool) -> Any:
        result = real(self, change, refuses)
        disk.record()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Base, "_write", write)
        yield
