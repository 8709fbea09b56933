"""The simplest model of a store: its content after every commit, and the scans that are open on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import lowtide
from lowtide import Isolation

Entry = tuple[bytes, bytes]
Place = tuple[str, bytes]
"""A keyspace and a key in it."""

State = dict[Place, bytes]
Change = dict[Place, bytes | None]

FIXED = (Isolation.SNAPSHOT, Isolation.SERIALIZABLE)
"""The levels that read one snapshot from begin to end."""


@dataclass(frozen=True)
class Wanted:
    """The arguments of a scan."""

    keyspace: str
    start: bytes | None
    stop: bytes | None
    prefix: bytes | None
    reverse: bool

    def open(self, source: lowtide.Store | lowtide.Transaction | lowtide.Snapshot) -> Iterator[Entry]:
        keyspace = source.keyspace(self.keyspace)
        return keyspace.scan(self.start, self.stop, prefix=self.prefix, reverse=self.reverse)

    def holds(self, place: Place) -> bool:
        name, key = place
        return (
            name == self.keyspace
            and (self.start is None or key >= self.start)
            and (self.stop is None or key < self.stop)
            and (self.prefix is None or key.startswith(self.prefix))
        )

    def of(self, state: State, own: Change) -> list[Entry]:
        """What the scan shows of ``state`` with a transaction's ``own`` writes laid over it."""
        merged: Change = {**state, **own}
        found = [(place[1], value) for place, value in merged.items() if value is not None and self.holds(place)]
        return sorted(found, reverse=self.reverse)


class Model:
    """``states[ts]`` is the content after commit ``ts``, ``changes[ts]`` what that commit wrote."""

    def __init__(self) -> None:
        self.states: list[State] = [{}]
        self.changes: list[Change] = [{}]

    @property
    def last(self) -> int:
        return len(self.states) - 1

    def commit(self, change: Change) -> None:
        merged: Change = {**self.states[-1], **change}
        self.states.append({place: value for place, value in merged.items() if value is not None})
        self.changes.append(dict(change))

    def conflicts(self, writes: Change, since: int) -> bool:
        """Whether another transaction committed one of these keys first. SNAPSHOT checks nothing else."""
        return any(not change.keys().isdisjoint(writes) for change in self.changes[since + 1 :])


@dataclass(eq=False)
class Tx:
    """An open transaction, and what it wrote."""

    real: lowtide.Transaction
    level: Isolation
    since: int
    writes: Change = field(default_factory=dict)


@dataclass(eq=False)
class OpenScan:
    """A scan that is being consumed, at whatever pace, while everything else goes on.

    ``expected`` is None until it is known: a scan that draws a snapshot of its own draws it when it is first consumed.
    ``holder`` is whose snapshot it reads, None for one of its own.
    """

    entries: Iterator[Entry]
    wanted: Wanted
    own: Change
    holder: Tx | lowtide.Snapshot | None
    expected: list[Entry] | None
    ts: int | None = None
    found: list[Entry] = field(default_factory=list)

    def consume(self, count: int, model: Model, ended: bool) -> bool:
        """Take ``count`` more entries. Returns whether there may be more. If its transaction has ``ended``, it may show
        what it has already fetched and must then refuse, but never end as if it had shown everything."""
        if self.expected is None:
            self.ts = model.last
            self.expected = self.wanted.of(model.states[-1], self.own)
        for _ in range(count):
            try:
                self.found.append(next(self.entries))
            except StopIteration:
                assert not ended, "a scan of an ended transaction ended silently"
                assert self.found == self.expected
                return False
            except lowtide.UsageError:
                assert ended
                return False
            assert self.found == self.expected[: len(self.found)]
        return True
