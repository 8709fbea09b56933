"""The open stores of one section: opened and loaded when first used, closed together."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Protocol, TypeVar

from bench.documents import Pair, total_revisions
from bench.peers import Adapter, Durability, Need, Peer, adapter, open_loaded

Answer = TypeVar("Answer")


def unable(chosen: Adapter, needs: frozenset[Need]) -> str | None:
    """Why the store cannot do it; None if it can."""
    return "; ".join(chosen.cannot[need] for need in sorted(needs) if need in chosen.cannot) or None


class Stores:
    """By name and durability."""

    def __init__(self, directory: Path, pairs: Sequence[Pair]) -> None:
        self._directory = directory
        self._pairs = pairs
        self._open: dict[tuple[str, Durability], Peer] = {}

    def load(self, name: str, durability: Durability) -> None:
        if (name, durability) not in self._open:
            self._open[name, durability] = open_loaded(name, self._directory, durability, self._pairs)

    def get(self, name: str, durability: Durability) -> Peer:
        return self._open[name, durability]

    def close(self) -> None:
        for peer in self._open.values():
            peer.close()

    def revisions(self, name: str, durability: Durability) -> int:
        """The sum of all documents' revisions, which shows whether a store has lost an update."""
        with closing(self._open[name, durability].session()) as session:
            if "order" in adapter(name).cannot:
                keys = (key for key, _ in self._pairs)
                return total_revisions((key, session.read_directly(key) or b"") for key in keys)
            return session.scan(total_revisions)


@contextmanager
def unwalked() -> Iterator[None]:
    """What was loaded stays until the end; walking it in each collection would cost all stores alike, for nothing.

    What the program has frozen itself, as a run of the tests does, must stay so: all is left frozen then.
    """
    is_frozen = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()


class Settling(Protocol):
    def settle(self) -> None:
        """Do the work that was deferred."""


def undisturbed(peer: Settling, work: Callable[[], Answer]) -> tuple[Answer, float]:
    """Do the work, then bring the store to rest; return the answer, and the seconds that coming to rest took."""
    # The garbage of one store is not to be collected in the time of the next.
    gc.collect()
    answer = work()
    stopped = perf_counter()
    peer.settle()
    return answer, perf_counter() - stopped
