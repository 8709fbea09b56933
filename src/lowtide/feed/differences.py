"""The changes of a bulk load: what a commit did to a collection by switching it to another keyspace.

A bulk load changes any number of documents in one commit by renaming a keyspace, so the log does not hold the single
changes. The load writes them to a keyspace of their own beforehand. It has a row for each affected key: the value after
the commit, and whether the key had the same value, another one or none before. The commit names that keyspace. No
transaction writes there afterwards, and it is emptied when the log no longer has the commit.

A load that writes straight to the base inserts most documents where there were none. Such keys that follow each other
share a row, a *block*, under the first of them. A block has a row's cost for many keys. No other row has a key between
the first and the last one of a block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

import msgspec

from lowtide.engine import Commit, Range, after_prefix
from lowtide.feed.change import Change, Kind

Scan = Callable[[Range], Iterable[tuple[bytes, bytes]]]
"""Reads the entries of a range of full keys. It yields keys without the prefix of their keyspace."""

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


class InsertedBlock(msgspec.Struct, frozen=True, gc=False):
    """Documents that a load inserted: ascending keys, and their values."""

    keys: list[bytes]
    values: list[bytes]


_BLOCK_KEYS: Final = 128
_BLOCK_BYTES: Final = 32 << 10
"""The number of keys in a block, or fewer if these have about as many bytes."""
_BLOCK_HEAD: Final = 0x82
"""The first byte of a block, a map. A difference of one key is an array."""
_STEP_BYTES: Final = 4 << 20
"""The approximate number of bytes after which a reader starts a new scan. A scan reads more and more rows at once."""
_decode_block: Final = msgspec.msgpack.Decoder(InsertedBlock).decode


def encode_blocks(keys: list[bytes], values: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The rows for inserted documents, of which at least one is given. Returns their keys and values.

    >>> encode_blocks([b"a", b"b"], [b"1", b"2"])[0]
    [b'a']
    """
    size = sum(map(len, values)) // len(values) + 1
    step = max(1, min(_BLOCK_KEYS, _BLOCK_BYTES // size))
    rows = [
        encode_difference(InsertedBlock(keys[start : start + step], values[start : start + step]))
        for start in range(0, len(keys), step)
    ]
    return keys[::step], rows


def block_in(row: bytes) -> InsertedBlock | None:
    """The block in a row; None if the row is the difference of one key."""
    return _decode_block(row) if row[0] == _BLOCK_HEAD else None


def block_around(scan: Scan, prefix: bytes, key: bytes) -> InsertedBlock | None:
    """The block whose first key is at most ``key``, and whose last key is at least that; None if there is none."""
    for _, row in scan(Range(prefix, prefix + key + b"\x00", reverse=True, first=1)):
        block = block_in(row)
        return block if block is not None and key <= block.keys[-1] else None
    return None


def read_differences(
    scan: Scan, prefix: bytes, low: bytes = b"", high: bytes | None = None
) -> Iterator[tuple[bytes, Difference]]:
    """Yield the differences for ``low <= key < high``, in order. A ``high`` of None is the end."""
    if low and (block := block_around(scan, prefix, low)) is not None:
        yield from _inserted(block, low, high)
        low = block.keys[-1] + b"\x00"
    rest: Range | None = Range(prefix + low, after_prefix(prefix) if high is None else prefix + high)
    while rest is not None:
        size, begun, rest = 0, rest, None
        for key, row in scan(begun):
            block = block_in(row)
            if block is None:
                yield key, decode_difference(row)
            else:
                yield from _inserted(block, low, high)
            size += len(row)
            if size > _STEP_BYTES:
                rest = begun.beyond(prefix + key)
                break


def _inserted(block: InsertedBlock, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, Difference]]:
    keys = block.keys
    end = len(keys) if high is None else bisect_left(keys, high)
    for place in range(bisect_left(keys, low), end):
        yield keys[place], Difference(block.values[place])


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
