"""The changes of a bulk load: what a commit did to a collection by switching it to another keyspace.

A bulk load changes any number of documents in one commit by renaming a keyspace, so the log does not hold the single
changes. The load writes them to a keyspace of their own beforehand. It has a row for each affected key: the value after
the commit, and whether the key had the same value, another one or none before. The commit names that keyspace. No
transaction writes there afterwards, and it is emptied when the log no longer has the commit.
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
    """The change of one key.

    Its value after the commit, or None. What it had before: ABSENT, OTHER or SAME. The value before, if it differs and
    the store keeps before images.
    """

    value: bytes | None
    was: int = ABSENT
    before: bytes | None = None
    version: int = 0
    """During a load that applies changes: the source commit that wrote ``value``."""

    @property
    def kind(self) -> Kind | None:
        """Return the change of the key. None if there is none."""
        if self.value is None:
            return None if self.was == ABSENT else "delete"
        return "insert" if self.was == ABSENT else "update" if self.was == OTHER else None


encode_difference: Final = msgspec.msgpack.Encoder().encode
decode_difference: Final = msgspec.msgpack.Decoder(Difference).decode


def encode_inserted(values: Iterable[bytes]) -> list[bytes]:
    """The differences of new documents. The same as ``encode_difference(Difference(value))`` for each value, but faster
    for most values: only the length and the value differ.

    >>> encode_inserted([b"abc"]) == [encode_difference(Difference(b"abc"))]
    True
    """
    return [
        _SHORT[size] + value + _REST if (size := len(value)) < _LONG else encode_difference(Difference(value))
        for value in values
    ]


_LONG: Final = 256
_REST: Final = encode_difference(Difference(None))[2:]
_SHORT: Final = tuple(bytes((0x94, 0xC4, size)) for size in range(_LONG))


def difference(before: bytes | None, value: bytes | None, images: bool) -> Difference:
    """Return the difference between two values. ``images``: keep the value before."""
    if before is None:
        return Difference(value)
    if before == value:
        return Difference(value, SAME)
    return Difference(value, OTHER, before if images else None)


class Swap(NamedTuple):
    """A switch of keyspaces: commit ``ts``, at ``time``, replaced ``old`` by ``new`` for the collection ``name``.

    The keyspace ``changes`` holds the difference.
    """

    ts: int
    time: float
    name: str
    old: str
    new: str
    changes: str


class Generations(Protocol):
    """Records which keyspaces replaced which."""

    def current(self, keyspace: str, since: int) -> str:
        """Return the keyspace that held the entries of ``keyspace`` at commit ``since``."""

    def named(self, name: str, since: int) -> str:
        """Return the keyspace of ``name`` at commit ``since``."""

    def swaps(self, commit: Commit) -> Iterable[Swap]:
        """Return the keyspaces that a commit replaced."""

    def differences(
        self, swap: Swap, low: bytes = b"", high: bytes | None = None
    ) -> Iterator[tuple[bytes, Difference]]:
        """Yield the keys of a swap in ``[low, high)``, in order. A ``high`` of None is the end.

        Raises ChangesLost if they are no longer kept.
        """


def changes_of(
    swap: Swap,
    keyspace: str,
    differences: Iterable[tuple[bytes, Difference]],
    with_before: bool,
    without_images: Callable[[int], Exception],
) -> Iterator[Change]:
    """Yield the changes of a swap, reported under ``keyspace``."""
    for key, each in differences:
        kind = each.kind
        if kind is None:
            continue
        if with_before and kind != "insert" and each.before is None:
            raise without_images(swap.ts)
        before = each.before if with_before else None
        replaced = kind == "update"
        yield Change(swap.ts, swap.time, keyspace, key, kind, value=each.value, before=before, replaced=replaced)
