"""A change: what one commit did to one key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from lowtide.engine import KEYSPACE_PREFIX, REPLACED, Commit

Kind = Literal["insert", "update", "delete"]


@dataclass(frozen=True, slots=True)
class Change:
    """What commit ``ts``, at ``time`` (seconds since the epoch), did to ``key`` of ``keyspace``.

    ``value`` is None for a delete. ``before`` is the value that was replaced or deleted, if it was requested.

    >>> store.keyspace("fruit").put(b"apple", b"green")
    >>> [(change.kind, change.key, change.value) for change in store.changes(since=store.stats().last_commit - 1)]
    [('update', b'apple', b'green')]
    """

    ts: int
    time: float
    keyspace: str
    key: bytes
    kind: Kind
    value: bytes | None
    before: bytes | None = None
    replaced: bool = False
    """Whether an update replaced a whole document, as ``replace_one`` does."""


def changes_in(
    commit: Commit, name_of: Callable[[bytes], str], prefixes: set[bytes] | None, with_before: bool
) -> Iterator[Change]:
    """Return the changes of a commit in the keyspaces with these ``prefixes``, or in all if None.

    Deleting a key that did not exist is not a change. A log of format 1 does not distinguish inserts from updates. Both
    are returned as updates.
    """
    existed, before = commit.existed, commit.before
    for index, (full_key, value) in enumerate(commit.writes.items()):
        prefix = full_key[:KEYSPACE_PREFIX]
        if prefixes is not None and prefix not in prefixes:
            continue
        there = existed is None or bool(existed[index])
        if value is None and not there:
            continue
        kind: Kind = "delete" if value is None else "update" if there else "insert"
        old = before[index] if with_before and before is not None else None
        replaced = value is not None and existed is not None and existed[index] == REPLACED
        key = full_key[KEYSPACE_PREFIX:]
        yield Change(commit.ts, commit.time, name_of(prefix), key, kind, value=value, before=old, replaced=replaced)
