"""A version chain: the versions of one key above the boundary, newest first.

A chain is a linked tuple ``(ts, value, older)``. It is never changed, only replaced as a whole, so a reader that holds
one has a consistent view of the past. Such tuples of plain values are also invisible to Python's cyclic collector. A
value of None is a tombstone: the key was deleted at ``ts``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Chain: TypeAlias = tuple[int, bytes | None, Any]
"""The third part is the next older Chain, or None. Its type is not spelled out: mypyc compiles no recursive alias."""

Version: TypeAlias = tuple[int, bytes | None]


def visible(chain: Chain | None, ts: int) -> Chain | None:
    """The part of ``chain`` that starts with the version a snapshot at ``ts`` sees; None if it has none."""
    while chain is not None and chain[0] > ts:
        chain = chain[2]
    return chain


def versions_of(chain: Chain | None) -> Iterator[Version]:
    """The versions of ``chain``, newest first."""
    while chain is not None:
        yield chain[0], chain[1]
        chain = chain[2]


def chain_of(versions: list[Version]) -> Chain | None:
    """The chain of ``versions``, which are given newest first."""
    chain: Chain | None = None
    for ts, value in reversed(versions):
        chain = (ts, value, chain)
    return chain
