"""Iterates over changes as they are committed, and waits for the next ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType

from lowtide.errors import UsageError
from lowtide.feed.change import Change
from lowtide.feed.feed import Feed


class Watch:
    """An endless iterator over the changes after a commit. Created by ``store.watch`` and ``consumer.watch``.

    It reads the log at its own pace, so a slow reader blocks nothing. A reader that falls behind what the log keeps
    gets ChangesLost. Used by one thread. Any thread may call ``close``, which ends the iteration.
    """

    def __init__(
        self,
        feed: Feed,
        since: int,
        keyspaces: Iterable[str] | None,
        before: bool,
        timeout: float | None,
        keep: object = None,
        *,
        exactly: bool = False,
    ) -> None:
        _check_timeout(timeout)
        self._feed = feed
        self._keep = keep
        """Keeps the store from being garbage-collected, and thereby closed, while this object lives."""
        self._reader = feed.reader(since, keyspaces, before, exactly)
        self._timeout = timeout
        self._upto = since
        self._changes: Iterator[Change] = iter(())
        self._failure: Exception | None = None
        """The error that ended the iteration. Every further step raises it again."""
        self._closed = False
        self.position = since
        """The last commit returned completely. Another watch can continue from here."""

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
        while not self._closed:
            if self._failure is not None:
                raise self._failure
            try:
                for change in self._changes:
                    self.position = max(self.position, change.ts - 1)
                    return change
            except Exception as error:
                self._failure = error
                raise
            self.position = self._upto
            last = self._feed.waiting.wait(self._upto, self._timeout, lambda: self._closed)
            if last <= self._upto:
                self._feed.check_open()
                if self._timeout is not None or self._closed:
                    break
                continue
            self._changes = self._reader.read(last)
            self._upto = last
        raise StopIteration

    def close(self) -> None:
        """End the iteration, even while a thread waits in it."""
        self._closed = True
        self._feed.waiting.wake()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_timeout(timeout: object) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
        raise UsageError(f"timeout is a number of seconds, or None to wait for ever, not {timeout!r}")
