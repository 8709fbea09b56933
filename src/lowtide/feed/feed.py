"""The change feed of one store, in any process: the log from one commit to another, as changes.

Holds nothing back by itself; consumers do that. What is no longer in the log is said to be lost, never skipped.
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
"""Commits that are read sooner than the segments that they are in are searched."""


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
    """Reads changes. ``published`` tells the last commit that may be shown.

    ``saved``, for who does not give out the names of the keyspaces, tells those in the base, and the boundary. Commits
    carry new names with them, so who reads on knows them all; ``_named`` is the commit up to which they are known. Any
    thread may write it, since what it says stays true.
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
        """The changes of the commits after ``since`` up to ``until``, in commit order."""
        self.check_open()
        last = self.published()
        upto = last if until is None else until
        for name, value in (("since", since), ("until", upto)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise UsageError(f"{name} is the timestamp of a commit, a number from 0 on, not {value!r}")
            if value > last:
                raise UsageError(f"{name}: commit {value} does not exist yet; the last one is {last}")
        if since < upto:
            self.check_kept(since)
        return self.reader(since, keyspaces, before).read(upto)

    def check_since(self, since: int) -> int:
        """``since``, if changes can be read from there on."""
        self.changes(since, None, None, False)
        return since

    def first_kept(self) -> int:
        """The first commit that the log still has, or will have."""
        return first_kept(self._log)

    def check_kept(self, since: int) -> None:
        """Raise ChangesLost for a position whose next commit the log no longer has."""
        kept = self.first_kept()
        if since + 1 < kept:
            raise ChangesLost(since, kept)

    def commits(self, since: int, until: int) -> CommitRange:
        """The commits after ``since`` up to ``until``, to be read from the files, in this process or another."""
        return CommitRange(self._log, self._store_id, since, until)

    def prefix_of(self, keyspace: str, upto: int) -> bytes | None:
        """The prefix of a keyspace; None if no commit up to ``upto``, which is known to exist, has written to it."""
        found = self.names.prefixes.get(keyspace)
        if found is None:
            self._learn_names(upto)
            found = self.names.prefixes.get(keyspace)
        return found

    def last_before(self, moment: float, *, inclusive: bool = True) -> int | None:
        """The last commit at the time of day ``moment`` or before it, or strictly before it; 0 if none was committed by
        then. None if all that the log still has is later. Reads the beginnings of segments, and one segment."""
        self.check_open()
        return last_before(self._log, self._store_id, self.published(), moment, inclusive=inclusive)

    def writes_of(self, full_key: bytes, since: int, until: int) -> Iterator[Commit]:
        """The commits after ``since`` up to ``until`` that write ``full_key``; found without decoding the others, if
        they are many."""
        if until - since <= _FEW:
            yield from (each for each in commits_in(self.commits(since, until)) if full_key in each.writes)
            return
        try:
            yield from commits_with(self._log, self._store_id, full_key, since, until)
        except Released as error:
            raise ChangesLost(error.wanted - 1, error.kept) from error

    def reader(self, since: int, keyspaces: Iterable[str] | None, before: bool, exactly: bool = False) -> FeedReader:
        """What reads on from ``since``, again and again. ``exactly`` says that the keyspaces are those of ``since``,
        not such in whose place others may have come before."""
        self._learn_names(since)
        names = check_keyspaces(keyspaces, least=0)
        asked = None if names is None else {each: each for each in names}
        if asked is not None and not exactly and self.generations is not None:
            asked = {self.generations.current(each, since): each for each in asked}
        return FeedReader(self, LogCursor(self._log, self._store_id, since), asked, before)

    def learn(self, commit: Commit) -> None:
        """Take over the names that a commit carries."""
        if commit.names is not None:
            self.names.learn(commit.names.items())
        if self._named == commit.ts - 1:
            self._named = commit.ts

    def _learn_names(self, upto: int) -> None:
        """Know the keyspaces of all commits up to ``upto``, from the base, and from the log above it."""
        while self._saved is not None and self._named < upto:
            boundary, names = self._saved()
            self.names.learn(names)
            self._named = max(self._named, boundary)
            try:
                for commit in commits_in(self.commits(self._named, upto)):
                    self.learn(commit)
            except ChangesLost:
                continue  # the base has come further meanwhile


class FeedReader:
    """Reads changes from where it stands. Used by one thread at a time.

    Of keyspaces that are named, it shows what is in their place as well: see ``Generations``."""

    def __init__(self, feed: Feed, cursor: LogCursor, asked: dict[str, str] | None, before: bool) -> None:
        self._feed = feed
        self._cursor = cursor
        self._asked = asked
        """By the keyspace that has the entries now, the one that was asked for; None for all, as they are."""
        self._before = before

    def read(self, upto: int) -> Iterator[Change]:
        """The changes up to commit ``upto``, which is known to exist. To be read to its end, or not gone on with."""
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
        """The changes of a commit that puts keyspaces in the place of others."""
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
