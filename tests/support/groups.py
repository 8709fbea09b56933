"""Several commits as one commit group, in a given order: deterministic, unlike threads that race."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import lowtide
from tests.support.parts import parts_of
from tests.support.patience import wait_until


def commit_in_one_group(store: lowtide.Store, commits: Sequence[Callable[[], object]]) -> list[Exception | None]:
    """Run each of ``commits`` in its own thread, so that all of them are members of one group, in this order. Returns
    what each of them raised."""
    committer = parts_of(store).committer
    raised: list[Exception | None] = [None] * len(commits)

    def run(place: int) -> None:
        try:
            commits[place]()
        except Exception as error:
            raised[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(commits))]
    with committer.exclusive():  # commits that arrive meanwhile queue up
        for expected, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda expected=expected: len(committer._queue) == expected)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    return raised
