"""Reads the change feed of a store, in any process: the log between two commits, as changes.

The feed itself does not keep the log; consumers do. Missing commits raise ChangesLost and are never skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from lowtide.engine import Commit, LogCursor, Released, check_keyspaces, commits_with, first_kept, last_before
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.change import Change, changes_in
from lowtide.feed.differences import Generations, Swap, changes_of
from lowtide.feed.ranges import CommitRange, commits_in

_FEW = 5000
"""Up to this many commits, reading them is faster than searching their segments."""


class Names(Protocol):
    """Knows the keyspaces."""

    prefixes: dict[str, bytes]

    def name_of(self, prefix: bytes) -> str: ...

    def learn(self, names: Iterable[tuple[str, bytes]]) -> None: ...


class Waiting(Protocol):
    """Waits for the next commit, see ``Waiters``."""

    def wait(self, after: int, timeout: float | None = None, stopped: Callable[[], bool] = bool) -> int: ...

    def wake(self) -> None: ...


class Feed:
    """Reads changes. ``published`` returns the last visible commit.

    ``saved`` is for processes that do not assign keyspace numbers. It returns the names in the base, and the boundary.
    Commits carry new names, so a reader of later commits learns them. ``_named`` is the commit up to which the names
    are known. Any thread may write it, since the statement stays true.
    """

    def __init__(
        self,
        log: Path,
        store_id: bytes,
        names: Names,
        published: Callable[[], int],
        waiting: Waiting,
        check_open: Callable[[], None],
        saved: Callable[[], tuple[int, Iterable[tuple[str, bytes]]]] | None = None,
        generations: Generations | None = None,
    ) -> None:
        self._log = log
        self._store_id = store_id
        self.names = names
        self.published = published
        self.waiting = waiting
        self.check_open = check_open
        self._saved = saved
        self.generations = generations
        self._named = 0

    def changes(self, since: int, until: int | None, keyspaces: Iterable[str] | None, before: bool) -> Iterator[Change]:
        """Yield the changes of the commits after ``since`` up to ``until``, in commit order."""
        self.check_open()
        last = self.published()
        upto = last if until is None else until
        for name, value in (("since", since), ("until", upto)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise UsageError(f"{name} must be the timestamp of a commit, at least 0, not {value!r}")
            if value > last:
                raise UsageError(f"{name}: commit {value} does not exist yet; the last one is {last}")
        if since < upto:
            self.check_kept(since)
        return self.reader(since, keyspaces, before).read(upto)

    def check_since(self, since: int) -> int:
        """Return ``since``, or raise if changes cannot be read from there."""
        self.changes(since, None, None, False)
        return since

    def first_kept(self) -> int:
        """Return the first commit that the log still has, or the next one if it has none."""
        return first_kept(self._log)

    def check_kept(self, since: int) -> None:
        """Raise ChangesLost for a position whose next commit the log no longer has."""
        kept = self.first_kept()
        if since + 1 < kept:
            raise ChangesLost(since, kept)

    def commits(self, since: int, until: int) -> CommitRange:
        """Return the range after ``since`` up to ``until``, to be read from the files in this or another process."""
        return CommitRange(self._log, self._store_id, since, until)

    def prefix_of(self, keyspace: str, upto: int) -> bytes | None:
        """Return the prefix of a keyspace. None if no commit up to ``upto``, which must exist, has written to it."""
        found = self.names.prefixes.get(keyspace)
        if found is None:
            self._learn_names(upto)
            found = self.names.prefixes.get(keyspace)
        return found

    def last_before(self, moment: float, *, inclusive: bool = True) -> int | None:
        """Return the last commit at or before the time ``moment``, or strictly before it. 0 if there was none yet.

        None if everything that the log still has is later. Reads the start of each segment, and one whole segment.
        """
        self.check_open()
        return last_before(self._log, self._store_id, self.published(), moment, inclusive=inclusive)

    def writes_of(self, full_key: bytes, since: int, until: int) -> Iterator[Commit]:
        """Yield the commits after ``since`` up to ``until`` that write ``full_key``.

        In a long range, the other commits are not decoded.
        """
        if until - since <= _FEW:
            yield from (each for each in commits_in(self.commits(since, until)) if full_key in each.writes)
            return
        try:
            yield from commits_with(self._log, self._store_id, full_key, since, until)
        except Released as error:
            raise ChangesLost(error.wanted - 1, error.kept) from error

    def reader(self, since: int, keyspaces: Iterable[str] | None, before: bool, exactly: bool = False) -> FeedReader:
        """Return a cursor that starts at ``since``. ``exactly``: the keyspaces are those at ``since``, so earlier
        replacements are not followed."""
        self._learn_names(since)
        names = check_keyspaces(keyspaces, least=0)
        asked = None if names is None else {each: each for each in names}
        if asked is not None and not exactly and self.generations is not None:
            asked = {self.generations.current(each, since): each for each in asked}
        return FeedReader(self, LogCursor(self._log, self._store_id, since), asked, before)

    def learn(self, commit: Commit) -> None:
        """Learn the keyspace names that a commit carries."""
        if commit.names is not None:
            self.names.learn(commit.names.items())
        if self._named == commit.ts - 1:
            self._named = commit.ts

    def _learn_names(self, upto: int) -> None:
        """Learn the keyspaces of all commits up to ``upto``, from the base and from the log above its boundary."""
        while self._saved is not None and self._named < upto:
            boundary, names = self._saved()
            self.names.learn(names)
            self._named = max(self._named, boundary)
            try:
                for commit in commits_in(self.commits(self._named, upto)):
                    self.learn(commit)
            except ChangesLost:
                continue  # the boundary has moved meanwhile


class FeedReader:
    """Reads changes from its position on. Used by one thread at a time.

    For keyspaces given by name, it follows replacements: see ``Generations``.
    """

    def __init__(self, feed: Feed, cursor: LogCursor, asked: dict[str, str] | None, before: bool) -> None:
        self._feed = feed
        self._cursor = cursor
        self._asked = asked
        """Maps the current keyspace to the requested one. None for all keyspaces."""
        self._before = before

    def read(self, upto: int) -> Iterator[Change]:
        """Yield the changes up to commit ``upto``, which must exist. The cursor is unusable unless read to the end."""
        try:
            for commit in self._cursor.read(upto):
                self._feed.learn(commit)
                if self._before and commit.before is None:
                    raise without_images(commit.ts)
                yield from self._changes(commit)
                self._feed.check_open()
        except Released as error:
            raise ChangesLost(error.wanted - 1, error.kept) from error
        finally:
            self._cursor.pause()

    def _changes(self, commit: Commit) -> Iterator[Change]:
        names, asked, generations = self._feed.names, self._asked, self._feed.generations
        if asked is None:
            return changes_in(commit, names.name_of, None, self._before)
        prefixes = {names.prefixes.get(each, b"") for each in asked}
        found = changes_in(commit, lambda prefix: asked[names.name_of(prefix)], prefixes, self._before)
        swaps = () if generations is None else [each for each in generations.swaps(commit) if each.old in asked]
        return found if generations is None or not swaps else self._swapped(found, swaps, generations)

    def _swapped(self, found: Iterator[Change], swaps: Iterable[Swap], generations: Generations) -> Iterator[Change]:
        """Yield the changes of a commit that replaces keyspaces."""
        assert self._asked is not None
        yield from found
        for each in swaps:
            name = self._asked[each.old]
            yield from changes_of(each, name, generations.differences(each), self._before, without_images)
            del self._asked[each.old]
            self._asked[each.new] = name


def without_images(ts: int) -> UsageError:
    return UsageError(
        f"commit {ts} was logged without the values that it replaced: "
        "open the store with before_images=True to have them in later ones"
    )
