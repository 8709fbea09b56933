"""Named consumers: places in the change feed that the log is kept for, like replication slots.

A consumer's place is a row of the base, so it survives restarts and every process sees it. It moves by ``ack``, in an
LMDB transaction of its own, and never back. The log behind it stays, up to the caps of the store's options; one that
falls behind those is told so by ChangesLost when it reads on, and never skips by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lowtide.engine import Base, ConsumerRow, Txn, check_name
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.change import Change
from lowtide.feed.feed import Feed
from lowtide.feed.watch import Watch


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A consumer as others see it: how far it has come, when it last said so, and whether it lost its place."""

    name: str
    position: int
    acknowledged: float
    lost: bool


class Consumers:
    """The consumers of a store, from whatever process: they live in the base."""

    def __init__(self, base: Base, feed: Feed, time: Callable[[], float]) -> None:
        self._base = base
        self._time = time
        self.feed = feed

    def get(self, name: str, since: int | None) -> Consumer:
        """The consumer ``name``, made at ``since``, or at the last commit, if there is none."""
        check_name(name, "consumer")
        self.feed.check_open()
        last = self.feed.published()
        if since is not None and (isinstance(since, bool) or not isinstance(since, int) or not 0 <= since <= last):
            raise UsageError(f"since must be the timestamp of a commit, from 0 to {last}, not {since!r}")

        def change(txn: Txn) -> bool:
            if self._base.consumers.get(txn, name) is not None:
                return False
            self._base.consumers.put(txn, name, ConsumerRow(last if since is None else since, self._time()))
            return True

        if self._base.write(change, refuses=True) and since is not None and since < last:
            try:
                self.feed.check_kept(since)  # after the row is there: from now on it is kept
            except ChangesLost:
                self.remove(name)
                raise
        return Consumer(self, name)

    def row(self, name: str) -> ConsumerRow:
        self.feed.check_open()
        row = self._base.read(lambda txn: self._base.consumers.get(txn, name))
        if row is None:
            raise UsageError(f"there is no consumer {name!r} any more; store.consumer makes a new one")
        return row

    def move(self, name: str, to: int, *, back: bool = False) -> None:
        """Set a consumer's place to ``to``, which is no earlier than where it is, unless it may go ``back``."""
        self.feed.check_open()
        last = self.feed.published()
        if isinstance(to, bool) or not isinstance(to, int) or not 0 <= to <= last:
            raise UsageError(f"a consumer's place is the timestamp of a commit, from 0 to {last}, not {to!r}")

        def change(txn: Txn) -> None:
            row = self._base.consumers.get(txn, name)
            if row is None:
                raise UsageError(f"there is no consumer {name!r} any more; store.consumer makes a new one")
            if to > row.position or back:
                self._base.consumers.put(txn, name, ConsumerRow(to, self._time()))

        self._base.write(change, refuses=True)

    def reset(self, name: str, to: int | None) -> None:
        """Set a consumer's place to ``to``, or the last commit, wherever it was."""
        before = self.row(name)
        self.move(name, self.feed.published() if to is None else to, back=True)
        try:
            if to is not None and to < self.feed.published():
                self.feed.check_kept(to)  # after the row is there: from now on it is kept
        except ChangesLost:
            self.move(name, before.position, back=True)
            raise

    def remove(self, name: str) -> bool:
        """Forget a consumer; false if there is none of this name."""
        self.feed.check_open()
        return self._base.write(lambda txn: self._base.consumers.delete(txn, name))

    def all(self) -> list[ConsumerState]:
        """The consumers by name."""
        return [
            ConsumerState(name, row.position, row.acknowledged, self._is_lost(row.position))
            for name, row in self._base.read(self._base.consumers.all)
        ]

    def _is_lost(self, position: int) -> bool:
        try:
            if position < self.feed.published():
                self.feed.check_kept(position)
        except ChangesLost:
            return True
        return False


class Consumer:
    """A named place in the change feed; made by ``store.consumer``.

    >>> consumer = store.consumer("search index", since=0)
    >>> changes = list(consumer.changes())
    >>> consumer.ack(changes[-1].ts)
    >>> list(consumer.changes())
    []
    """

    __slots__ = ("_consumers", "keep", "name")

    def __init__(self, consumers: Consumers, name: str) -> None:
        self._consumers = consumers
        self.keep: object = None
        """The store, which must not be closed under this because it was dropped."""
        self.name = name

    @property
    def position(self) -> int:
        """The last commit that was acknowledged, in whatever process."""
        return self._consumers.row(self.name).position

    def changes(
        self, until: int | None = None, keyspaces: Iterable[str] | None = None, *, before: bool = False
    ) -> Iterator[Change]:
        """The changes that are not acknowledged, up to ``until`` or the last commit. Raises ChangesLost if the log no
        longer has them; ``reset`` then takes a new place."""
        return self._consumers.feed.changes(self.position, until, keyspaces, before)

    def watch(
        self, keyspaces: Iterable[str] | None = None, *, before: bool = False, timeout: float | None = None
    ) -> Watch:
        """The changes that are not acknowledged, and then further ones as they come, see ``store.watch``."""
        return Watch(self._consumers.feed, self.position, keyspaces, before, timeout, self.keep)

    def ack(self, ts: int) -> None:
        """Acknowledge everything up to commit ``ts``, durably: it is not shown again, and need not be kept."""
        self._consumers.move(self.name, ts)

    def reset(self, to: int | None = None) -> None:
        """Take a new place, at commit ``to`` or the last one: what lies between is skipped, because you said so. Raises
        ChangesLost, and stays where it is, if the log no longer has what follows ``to``."""
        self._consumers.reset(self.name, to)

    def remove(self) -> bool:
        """Forget this consumer, so that nothing is kept for it; false if it is gone already."""
        return self._consumers.remove(self.name)

    def __repr__(self) -> str:
        return f"<consumer {self.name!r}>"
