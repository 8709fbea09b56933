"""Named consumers: positions in the change feed for which the log is kept, like replication slots.

A consumer's position is a row of the base, so it survives restarts and every process sees it. ``ack`` moves it forward,
in a transaction of its own. The log after it is kept, up to the limits of the store's options. A consumer that falls
behind those limits gets ChangesLost when it next reads; changes are never skipped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lowtide.engine import Base, ConsumerPositions, ConsumerRow, check_name
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.change import Change
from lowtide.feed.feed import Feed
from lowtide.feed.watch import Watch


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A consumer as ``store.consumers()`` lists it: its position, when it last acknowledged (seconds since the epoch),
    and whether the log no longer has its next changes."""

    name: str
    position: int
    acknowledged: float
    lost: bool


class Consumers:
    """The consumers of a store, for any process: their positions are in the base."""

    def __init__(self, base: Base, feed: Feed, time: Callable[[], float]) -> None:
        self._positions = ConsumerPositions(base)
        self._time = time
        self.feed = feed

    def get(self, name: str, since: int | None) -> Consumer:
        """The consumer ``name``. If there is none, it is created at ``since``, by default the last commit."""
        check_name(name, "consumer")
        self.feed.check_open()
        last = self.feed.published()
        if since is not None and (isinstance(since, bool) or not isinstance(since, int) or not 0 <= since <= last):
            raise UsageError(f"since must be the timestamp of a commit, from 0 to {last}, not {since!r}")
        created = self._positions.create(name, ConsumerRow(last if since is None else since, self._time()))
        if created and since is not None and since < last:
            try:
                self.feed.check_kept(since)  # after the row exists: from then on the log is kept
            except ChangesLost:
                self.remove(name)
                raise
        return Consumer(self, name)

    def row(self, name: str) -> ConsumerRow:
        """Return the row of a consumer. Raises if there is none."""
        self.feed.check_open()
        row = self._positions.get(name)
        if row is None:
            raise _missing(name)
        return row

    def move(self, name: str, to: int, *, back: bool = False) -> None:
        """Set a consumer's position to ``to``. An earlier position is ignored unless ``back``."""
        self.feed.check_open()
        last = self.feed.published()
        if isinstance(to, bool) or not isinstance(to, int) or not 0 <= to <= last:
            raise UsageError(f"a consumer's position is the timestamp of a commit, from 0 to {last}, not {to!r}")
        if not self._positions.move(name, ConsumerRow(to, self._time()), back=back):
            raise _missing(name)

    def reset(self, name: str, to: int | None) -> None:
        """Set a consumer's position to ``to``, by default the last commit, forward or back."""
        before = self.row(name)
        self.move(name, self.feed.published() if to is None else to, back=True)
        try:
            if to is not None and to < self.feed.published():
                self.feed.check_kept(to)  # after the row exists: from then on the log is kept
        except ChangesLost:
            self.move(name, before.position, back=True)
            raise

    def remove(self, name: str) -> bool:
        """Remove a consumer. Returns False if there is none of this name."""
        self.feed.check_open()
        return self._positions.delete(name)

    def all(self) -> list[ConsumerState]:
        """All consumers, by name."""
        return [
            ConsumerState(name, row.position, row.acknowledged, self._is_lost(row.position))
            for name, row in self._positions.all()
        ]

    def _is_lost(self, position: int) -> bool:
        try:
            if position < self.feed.published():
                self.feed.check_kept(position)
        except ChangesLost:
            return True
        return False


def _missing(name: str) -> UsageError:
    return UsageError(f"consumer {name!r} no longer exists; create a new one with store.consumer")


class Consumer:
    """A named position in the change feed. Created by ``store.consumer``.

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
        """Keeps the store from being garbage-collected, and thereby closed, while this object lives."""
        self.name = name

    @property
    def position(self) -> int:
        """The last commit acknowledged by any process."""
        return self._consumers.row(self.name).position

    def changes(
        self, until: int | None = None, keyspaces: Iterable[str] | None = None, *, before: bool = False
    ) -> Iterator[Change]:
        """Return the changes not acknowledged yet, up to ``until`` or the last commit.

        Raises ChangesLost if the log no longer has them. Call ``reset`` then to set a new position.
        """
        return self._consumers.feed.changes(self.position, until, keyspaces, before)

    def watch(
        self, keyspaces: Iterable[str] | None = None, *, before: bool = False, timeout: float | None = None
    ) -> Watch:
        """Return the changes not acknowledged yet, and then new ones as they are committed. See ``store.watch``."""
        return Watch(self._consumers.feed, self.position, keyspaces, before, timeout, keep=self.keep)

    def ack(self, ts: int) -> None:
        """Acknowledge everything up to commit ``ts``, durably. It is not returned again, and the log may drop it."""
        self._consumers.move(self.name, ts)

    def reset(self, to: int | None = None) -> None:
        """Set a new position: commit ``to``, or the last one. Changes in between are skipped.

        Raises ChangesLost, and does not move, if the log no longer has the commits after ``to``.
        """
        self._consumers.reset(self.name, to)

    def remove(self) -> bool:
        """Remove this consumer, so that no log is kept for it. Returns False if it no longer exists."""
        return self._consumers.remove(self.name)

    def __repr__(self) -> str:
        return f"<consumer {self.name!r}>"
