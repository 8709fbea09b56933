"""The life of a store that uses every feature, and what must be found after a crash at any step.

Commits of all sizes, pins, consumers, before images, snapshots that fill the history, checkpoints in a thread or in
the helper process, garbage collections, a backup, a compaction, a restart. The trace records what is durable from each
step on: a commit, a pin, the position of a consumer.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

import lowtide
from lowtide import Snapshot
from lowtide.engine.base.environment import Base
from lowtide.system.disk import RealDisk
from tests.crash.stores import SMALL, Changes, Content, Durability, Model, both, commit, content_of, wait_until
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
    pins: dict[str, tuple[int, tuple[str, ...] | None]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    maybe: frozenset[str] = frozenset()
    """The names of pins and consumers that may be there."""


def certain_from(notes: tuple[object, ...]) -> Certain:
    known = Certain()
    for note in notes:
        match note:
            case ("durable", int(ts)):
                known.durable = max(known.durable, ts)
            case ("pinned", str(name), int(ts), None):
                known.pins[name] = (ts, None)
            case ("pinned", str(name), int(ts), [*keyspaces]):
                known.pins[name] = (ts, tuple(map(str, keyspaces)))
            case ("unpinning", str(name)):
                known.pins.pop(name, None)
            case ("place", str(name), int(position)):
                known.places[name] = position
            case ("reached", int(ts)):  # a consumer that was further is set back to what is left
                known.places = {name: min(place, ts) for name, place in known.places.items()}
            case ("perhaps", *names):
                known.maybe |= frozenset(map(str, names))
    return known


class NotingDisk(RealDisk):
    """The real disk. Notes are kept, and also written to a file, if one is named: there they outlive this process."""

    def __init__(self, file: Path | None = None) -> None:
        self.notes: list[object] = []
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if file is not None else -1

    def note(self, what: object) -> None:
        self.notes.append(what)
        if self._descriptor >= 0:
            os.write(self._descriptor, (json.dumps(what) + "\n").encode())

    def record(self) -> None:
        pass


def notes_in(file: Path) -> tuple[object, ...]:
    lines = file.read_text().splitlines() if file.exists() else ()
    return tuple(tuple(each) if isinstance(each, list) else each for each in map(json.loads, lines))


_Disk = TypeVar("_Disk", RecordingDisk, NotingDisk)


class Life(Generic[_Disk]):
    """A store on a disk that takes notes. Each method does one thing and notes what is certain after it.

    What survives a kill is everything that was acknowledged; a power loss, only what was durable: ``lossy`` says that
    this one may end with a power loss.
    """

    def __init__(
        self,
        path: Path,
        durability: Durability,
        disk: _Disk,
        *,
        lossy: bool = True,
        before: History | None = None,
        **options: Any,
    ) -> None:
        self.path = path
        self.options: dict[str, Any] = {**RICH, "durability": durability, **options}
        self.model = History()
        self.disk: _Disk = disk
        self.faults = FaultyDisk(disk)
        self._lossy = lossy
        self._held: Snapshot | None = None
        self.store = lowtide.open(path, **self.options, disk=self.faults)
        last = self.store.stats().last_commit
        if before is not None:  # another life: only its first commits are left
            self.model.states, self.model.commits = before.states[: last + 1], before.commits[: last + 1]
            self.disk.note(("reached", last))
        self.disk.note(("durable", last))

    def commit(self, number: int, size: int = 0) -> None:
        changes = both(number, size)
        ts = commit(self.store, changes)
        self.model.apply(changes)
        assert ts == len(self.model.states) - 1
        if self.options["durability"] == "full" or not self._lossy:
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

    def hold(self) -> None:
        """Open a snapshot, so that the next checkpoints must keep old versions for it."""
        self._held = self.store.snapshot()

    def let_go(self) -> None:
        if self._held is not None:
            self._held.close()

    def back_up(self) -> None:
        self.store.backup(self.path.with_name(f"{self.path.name} backup"))

    def compact(self) -> None:
        self.store.compact()
        self.disk.record()

    def collect(self) -> None:
        self.store.collect_garbage()

    def close(self) -> None:
        self.store.close()

    def group(self, *numbers: int) -> None:
        """Commits of several threads that go to the log in one write, in whatever order they came to be in."""
        committer = parts_of(self.store).committer
        committed: dict[int, Changes] = {}

        def work(changes: Changes) -> None:
            committed[commit(self.store, changes)] = changes

        threads = [
            threading.Thread(target=work, args=({"left": {b"group %d" % number: b"%d" % number * 90}},))
            for number in numbers
        ]
        with committer.exclusive():
            for thread in threads:
                thread.start()
            wait_until(lambda: len(committer._queue) == len(threads))
        for thread in threads:
            thread.join()
        for _, changes in sorted(committed.items()):
            self.model.apply(changes)
        if self.options["durability"] == "full" or not self._lossy:
            self.disk.note(("durable", max(committed)))

    def live(self) -> None:
        """All of it."""
        for step in self.steps():
            step()

    def steps(self) -> Iterator[Callable[[], None]]:
        def commits(first: int, *sizes: int) -> list[Callable[[], None]]:
            return [partial(self.commit, number, size) for number, size in enumerate(sizes, first)]

        yield from commits(0, 100, 700, 20)
        yield partial(self.consumer, "mirror")
        yield partial(self.pin, "old")
        yield from commits(3, 1500)
        yield self.hold
        yield from commits(4, 1200, 30, 900)
        yield self.checkpoint
        yield partial(self.ack, "mirror", 5)
        yield from commits(7, 1300)
        yield self.checkpoint
        yield self.let_go
        yield self.collect
        yield self.back_up
        yield self.sync
        yield partial(self.pin, "left only", ["left"])
        yield from commits(8, 600, 1500)
        yield partial(self.unpin, "old")
        yield partial(self.ack, "mirror", 9)
        yield self.checkpoint
        yield self.collect
        yield self.restart
        yield from commits(10, 1100)
        yield partial(self.consumer, "late")
        yield self.compact
        yield from commits(11, 200, 1800)
        yield self.close

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
