"""The offset of a stream: what Spark writes to its checkpoint, and the only state that a restarted stream has.

A stream that begins with a snapshot first delivers its keys, with ``after`` as the position, and then the commits. The
rows between two offsets are a pure function of the offsets and of the store's pin and log.

A query that was stopped in its first batch requests that batch again with a new initial offset. The initial offset is
therefore empty, and the end offset of the first batch records where the stream began: ``since``.
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
    """A position in a stream. Everything before it is delivered once the batch that ends here is."""

    store: str
    """The id of the store."""
    what: str
    """The collection or keyspace, as described to users."""
    keyspace: str
    """The keyspace that is followed."""
    stream: str
    """The unique id of this stream."""
    consumer: str
    """The consumer for which the log is kept."""
    since: int
    """The commit after which the stream began. The commit of the snapshot, if it began with one."""
    version: int
    """The commit up to which changes are delivered."""
    taken: int | None = None
    """When the snapshot was taken, in microseconds since the epoch; None for a stream without one."""
    after: str | None = None
    """Position in the snapshot: BEGIN, or a key, see ``after_key``. None when the snapshot is delivered."""
    began: str | None = None
    """The keyspace with which the stream began, if a bulk load has replaced it since."""

    @property
    def pin(self) -> str:
        """The pin that keeps the snapshot."""
        return f"stream {self.stream}"

    @property
    def last_key(self) -> bytes | None:
        """The last delivered key of the snapshot. None if there is none."""
        assert self.after is not None
        return None if self.after == BEGIN else bytes.fromhex(self.after.removeprefix(_KEY))

    def origin(self) -> Offset:
        """Where the stream of this offset began."""
        after = None if self.taken is None else BEGIN
        keyspace = self.began or self.keyspace
        return msgspec.structs.replace(self, keyspace=keyspace, began=None, version=self.since, after=after)

    def with_snapshot(self, keyspace: str, version: int, taken: float) -> Offset:
        """Return the start of a stream with a snapshot of this commit, taken at this time."""
        return msgspec.structs.replace(
            self, keyspace=keyspace, since=version, version=version, taken=round(taken * 1e6), after=BEGIN
        )

    def after_key(self, key: bytes | None) -> Offset:
        """Return the offset with the snapshot delivered up to this key. None for all of it."""
        return msgspec.structs.replace(self, after=None if key is None else _KEY + key.hex())

    def at_version(self, version: int) -> Offset:
        """Return the offset with the changes delivered up to this commit."""
        return msgspec.structs.replace(self, version=version)

    def swapped(self, version: int, keyspace: str) -> Offset:
        """Return the offset with the changes delivered up to this commit, which replaced the keyspace."""
        began = self.began or self.keyspace
        return msgspec.structs.replace(self, version=version, keyspace=keyspace, began=began)

    def plain(self) -> dict[str, Any]:
        """Return the offset as Spark stores it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def parse(offset: dict[str, Any]) -> Offset | None:
    """Parse an offset from Spark. Returns None for the initial one."""
    if offset == INITIAL:
        return None
    try:
        found = msgspec.convert(offset, Offset)
        if found.after is not None:
            _ = found.last_key
        return found
    except (*UNDECODABLE, ValueError) as error:
        raise UsageError(
            f"the checkpoint has an offset that is not from a lowtide stream: {offset} ({error})"
        ) from error
