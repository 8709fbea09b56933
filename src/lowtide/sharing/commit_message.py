"""A commit as a joined process sends it to the owner: what the owner needs to validate, log and publish it."""

from __future__ import annotations

from typing import Final

import msgspec

from lowtide.engine.log.frame import commit_of
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.request import JOINED, Request
from lowtide.engine.transaction.yielding import Yielding
from lowtide.engine.types import KEYSPACE_PREFIX, MAX_KEY, Range, Writes

IDENTITY: Final = 16
"""Bytes of a commit's identity."""

_Span = tuple[bytes, bytes | None]
"""A range of full keys."""


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """The lease under which a transaction reads: the name and the id of a pin."""

    name: str
    id: bytes


class SentReads(msgspec.Struct, frozen=True, array_like=True):
    """The read set of a serializable transaction."""

    keys: set[bytes]
    ranges: list[_Span]


class Guarded(msgspec.Struct, frozen=True, array_like=True):
    """What the commit relies on besides its writes; see ``Guards``. ``yields`` are the keys at which it gives way, with
    the previous values of all keys that it writes."""

    keys: dict[bytes, int]
    ranges: list[tuple[bytes, bytes | None, int]]
    yields: tuple[set[bytes], Writes] | None = None


class CommitMessage(msgspec.Struct, frozen=True, array_like=True):
    """One commit. ``payload`` is as it goes to the log, with the ``identity`` in it. ``first_wins`` is set from
    SNAPSHOT on. ``unanswered`` is set if the commit was sent before and not answered: it may be in the log, after that
    commit. The other fields are those of ``Request``."""

    identity: bytes
    payload: bytes
    seen: int
    durably: bool
    first_wins: bool
    lease: Lease
    reads: SentReads | None = None
    guards: Guarded | None = None
    merging: frozenset[bytes] = frozenset()
    replaced: frozenset[bytes] | None = None
    unanswered: int | None = None


encode_message = msgspec.msgpack.Encoder().encode
decode_message = msgspec.msgpack.Decoder(CommitMessage).decode


def message_of(request: Request, identity: bytes, lease: Lease) -> CommitMessage:
    """The message for a request, whose payload has the identity."""
    reads, guards = request.reads, request.guards
    return CommitMessage(
        identity=identity,
        payload=request.payload,
        seen=request.seen,
        durably=request.durably,
        first_wins=request.token != 0,
        lease=lease,
        reads=None if reads is None else SentReads(reads.keys, [(each.low, each.high) for each in reads.ranges]),
        guards=None if guards is None else _guarded(guards),
        merging=request.merging,
        replaced=request.replaced,
    )


def _guarded(guards: Guards) -> Guarded:
    ranges = [(each.low, each.high, seen) for each, seen in guards.ranges]
    yielding = guards.yielding
    return Guarded(guards.keys, ranges, None if yielding is None else (yielding.keys, yielding.before))


def request_of(message: CommitMessage, *, keep_before: bool) -> Request:
    """The request of a message; raises one of UNDECODABLE if no process of Lowtide sends such a message. Its lease is
    not set yet."""
    commit = commit_of(message.payload)
    if commit.identity != message.identity or len(message.identity) != IDENTITY or commit.existed is None:
        raise msgspec.ValidationError("the payload of a commit has another identity than its message")
    lengths = [*map(len, commit.writes), KEYSPACE_PREFIX]
    if min(lengths) < KEYSPACE_PREFIX or max(lengths) > KEYSPACE_PREFIX + MAX_KEY:
        raise msgspec.ValidationError("a key is too short or too long")
    return Request(
        writes=commit.writes,
        seen=message.seen,
        time=commit.time,
        payload=message.payload,
        durably=message.durably,
        names=commit.names,
        token=JOINED if message.first_wins else 0,
        identity=message.identity,
        untold=keep_before and commit.before is None,
        reads=None if message.reads is None else _read_set(message.reads),
        guards=None if message.guards is None else _guards(message.guards),
        merging=message.merging,
        replaced=message.replaced,
    )


def _read_set(reads: SentReads) -> ReadSet:
    found = ReadSet()
    found.keys = reads.keys
    found.ranges = [Range(low, high) for low, high in reads.ranges]
    return found


def _guards(guarded: Guarded) -> Guards:
    guards = Guards()
    guards.keys = guarded.keys
    guards.ranges = [(Range(low, high), seen) for low, high, seen in guarded.ranges]
    if guarded.yields is not None:
        guards.yielding = Yielding(*guarded.yields)
    return guards
