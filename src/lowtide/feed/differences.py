"""The difference of two generations: what one commit did to a collection by giving it another keyspace.

A bulk load changes any number of documents in one commit, by a name alone. The log cannot have what that did to each
of them, so the load writes it down beforehand, in a keyspace of its own: a row for each key that it is about, with the
value that the key has after the commit, and whether it had the same value, another one or none before. The commit names
that keyspace. After it no transaction writes there; the keyspace is emptied when the log no longer has the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

import msgspec

from lowtide.engine import Commit
from lowtide.feed.change import Change, Kind

ABSENT: Final = 0
OTHER: Final = 1
SAME: Final = 2


class Difference(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """One key: its value after the commit, None if it has none; what it had before, ABSENT, OTHER or SAME; and that
    value, if it is another one and the store keeps those."""

    value: bytes | None
    was: int = ABSENT
    before: bytes | None = None
    version: int = 0
    """While the load is going on, the commit elsewhere that left ``value``, if it applies changes."""

    @property
    def kind(self) -> Kind | None:
        """What the commit did to the key; None if nothing."""
        if self.value is None:
            return None if self.was == ABSENT else "delete"
        return "insert" if self.was == ABSENT else "update" if self.was == OTHER else None


encode_difference: Final = msgspec.msgpack.Encoder().encode
decode_difference: Final = msgspec.msgpack.Decoder(Difference).decode


def difference(before: bytes | None, value: bytes | None, images: bool) -> Difference:
    """From one value to another; ``images`` is whether values before a change are kept."""
    if before is None:
        return Difference(value)
    if before == value:
        return Difference(value, SAME)
    return Difference(value, OTHER, before if images else None)


class Swap(NamedTuple):
    """Commit ``ts``, at ``time``, gave what is called ``name`` the keyspace ``new`` in the place of ``old``; the
    keyspace ``changes`` has the difference."""

    ts: int
    time: float
    name: str
    old: str
    new: str
    changes: str


class Generations(Protocol):
    """Knows which keyspaces replaced others."""

    def current(self, keyspace: str, since: int) -> str:
        """The keyspace that had the entries of ``keyspace`` at commit ``since``."""

    def named(self, name: str, since: int) -> str:
        """The keyspace that what is called ``name`` had at commit ``since``."""

    def swaps(self, commit: Commit) -> Iterable[Swap]:
        """What a commit put in the place of others."""

    def differences(
        self, swap: Swap, low: bytes = b"", high: bytes | None = None
    ) -> Iterator[tuple[bytes, Difference]]:
        """The keys of a swap from ``low`` on, before ``high``, None for the end, in their order. Raises ChangesLost if
        they are no longer kept."""


def changes_of(
    swap: Swap,
    keyspace: str,
    differences: Iterable[tuple[bytes, Difference]],
    with_before: bool,
    without_images: Callable[[int], Exception],
) -> Iterator[Change]:
    """The changes of a swap, as those of ``keyspace``."""
    for key, each in differences:
        kind = each.kind
        if kind is None:
            continue
        if with_before and kind != "insert" and each.before is None:
            raise without_images(swap.ts)
        before = each.before if with_before else None
        yield Change(swap.ts, swap.time, keyspace, key, kind, each.value, before, kind == "update")
