"""Where a stream is: what Spark writes into its checkpoint, and all that a restarted stream knows of its past.

A stream that begins with a snapshot first goes through its keys, ``after`` telling how far, and then through the
commits. What lies between two offsets is a pure function of them and of the store's pin and log.

A query that was stopped in its first batch asks for that batch again with a new initial offset. So that one is empty,
and the end of the first batch says where it began: ``since``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lowtide.errors import UsageError
from lowtide.system.messages import UNDECODABLE

INITIAL: Final[dict[str, Any]] = {"initial": True}
"""The offset before the first batch."""
BEGIN: Final = ""
_KEY: Final = "="


class Offset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything up to here was delivered, once the batch that ends here is."""

    store: str
    """The id of the store."""
    what: str
    """The collection or keyspace, in words."""
    keyspace: str
    """The keyspace that is followed."""
    stream: str
    """What tells this stream from all others."""
    consumer: str
    """The consumer for which the log is kept."""
    since: int
    """The commit after which the stream began; that of the snapshot, if it began with one."""
    version: int
    """The commit up to which changes are delivered."""
    taken: int | None = None
    """When the snapshot was taken, in microseconds since the epoch; None for a stream without one."""
    after: str | None = None
    """How far the snapshot is delivered: BEGIN, or a key, see ``after_key``; None if it is done."""
    began: str | None = None
    """The keyspace with which the stream began, if a bulk load has put another one in its place since."""

    @property
    def pin(self) -> str:
        """The pin that keeps the snapshot."""
        return f"stream {self.stream}"

    @property
    def last_key(self) -> bytes | None:
        """The last key of the snapshot that is delivered; None if none is."""
        assert self.after is not None
        return None if self.after == BEGIN else bytes.fromhex(self.after.removeprefix(_KEY))

    def origin(self) -> Offset:
        """Where the stream of this offset began."""
        after = None if self.taken is None else BEGIN
        keyspace = self.began or self.keyspace
        return msgspec.structs.replace(self, keyspace=keyspace, began=None, version=self.since, after=after)

    def with_snapshot(self, keyspace: str, version: int, taken: float) -> Offset:
        """The beginning of a stream with a snapshot of this commit, taken at this time of day."""
        return msgspec.structs.replace(
            self, keyspace=keyspace, since=version, version=version, taken=round(taken * 1e6), after=BEGIN
        )

    def after_key(self, key: bytes | None) -> Offset:
        """With the snapshot delivered up to this key; None for all of it."""
        return msgspec.structs.replace(self, after=None if key is None else _KEY + key.hex())

    def at_version(self, version: int) -> Offset:
        """With the changes delivered up to this commit."""
        return msgspec.structs.replace(self, version=version)

    def swapped(self, version: int, keyspace: str) -> Offset:
        """With the changes delivered up to this commit, which gave the collection another keyspace."""
        began = self.began or self.keyspace
        return msgspec.structs.replace(self, version=version, keyspace=keyspace, began=began)

    def plain(self) -> dict[str, Any]:
        """As Spark keeps it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def parse(offset: dict[str, Any]) -> Offset | None:
    """The offset that Spark gives back; None for the initial one."""
    if offset == INITIAL:
        return None
    try:
        found = msgspec.convert(offset, Offset)
        if found.after is not None:
            _ = found.last_key
        return found
    except (*UNDECODABLE, ValueError) as error:
        raise UsageError(
            f"the checkpoint has an offset that is none of a lowtide stream: {offset} ({error})"
        ) from error
