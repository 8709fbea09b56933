"""The operations that workloads need, and what an adapter declares about its store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bench.documents import Pair
from bench.registry import Durability, Measured

__all__ = ["Adapter", "Change", "ChangeSeveral", "Consumer", "Durability", "Need", "Peer", "Session"]

Need = Literal["unsynced", "order", "threads", "batches"]
"""What a workload needs beyond single documents, from one thread, synced: see ``Adapter.cannot``."""
Change = Callable[[bytes | None], bytes]
ChangeSeveral = Callable[[list[bytes | None]], Sequence[bytes]]
Consumer = Callable[[Iterable[Pair]], int]


class Session(Protocol):
    """One thread's access to a store. Each call is one transaction."""

    def read(self, key: bytes) -> bytes | None:
        """Get one value in a transaction of its own."""

    def read_directly(self, key: bytes) -> bytes | None:
        """Get one value by the shortest call the store has for it."""

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Get the values one by one in a single read-only transaction."""

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        """Hand the pairs from ``start`` up to ``stop``, which are ``count``, to the consumer; return its answer."""

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        """Hand the first ``count`` pairs from ``start`` on, or as many as there are, to the consumer."""

    def scan(self, consume: Consumer) -> int:
        """Hand all pairs in the order of their keys to the consumer; return its answer."""

    def put(self, key: bytes, value: bytes) -> None:
        """Put one pair, whether the key is there or not, in a transaction of its own."""

    def put_all(self, pairs: Iterable[Pair]) -> None:
        """Put the pairs in a single transaction, in the order given."""

    def modify(self, key: bytes, change: Change) -> None:
        """Read the value of an existing key, change it and write it back, isolated from every other thread."""

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        """The same of several keys in a single transaction; return how many attempts ended in a conflict."""

    def close(self) -> None: ...


class Peer(Protocol):
    """One open store, shared by the sessions of all threads."""

    def session(self) -> Session: ...

    def settle(self) -> None:
        """Do the work that the store has deferred, so that none of it falls into the next store's measurement."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Adapter(Measured[Peer, Need]):
    """A peer."""
