"""Lone statements: single statements that commit without a transaction. They take no snapshot and no buffer.

A ``LoneStatement`` reads the newest state key by key. Its *instant* is the last commit that was published before its
first read. It commits its writes immediately, by these rules:

* If nothing was committed after its instant, everything it read is the state of that instant.
* Otherwise the commit compares the keys that the statement writes or relies on. If none of them was committed after the
  instant, they still have the values that were read, and nothing else it read matters. A statement is not compared if
  it looked for the first key of a range, or read many keys and writes only some of them: another key may be the right
  one by now.
* If one of these keys has changed, the leader of the commit group runs the statement again under the commit lock. It
  then sees the committed state and the pending writes of earlier group members (``TurnStatement``). Nothing can come
  between this run and its commit, so it cannot conflict. This is correct because a statement chooses its own instant,
  and may choose this one. Workers that all take the first job of a queue thus get one job each, in one group.

A statement that ends without a commit, or with an error, is correct if nothing was committed meanwhile. Otherwise it
runs in an ordinary transaction. So does a statement that needs more than this module offers (``NeedsTransaction``).

No snapshot is registered, so a deletion after the instant may leave no tombstone in the base. A statement whose instant
is below the base's boundary therefore counts as changed.

Who writes: the statement's own thread; then, from ``submit`` to ``done``, the leader of the commit group, under the
commit lock. The statement's thread waits meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn, TypeVar

from lowtide.engine.log.frame import encode_one, encode_payload
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.request import Request
from lowtide.engine.types import KEYSPACE_PREFIX, MAX_COMMIT, Range, Writes, commit_too_large
from lowtide.errors import TransientError

_Result = TypeVar("_Result")


class NeedsTransaction(Exception):
    """Raised if a statement cannot run alone. Nothing was written."""


class NewestReads:
    """The reads that are available to a lone statement. Subclasses define ``read``."""

    __slots__ = ("engine", "replaced", "ts")

    engine: Engine
    ts: int
    """Its instant."""
    replaced: frozenset[bytes] | None

    def peek(self, full_keys: list[bytes]) -> NoReturn:
        raise NeedsTransaction

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        raise NeedsTransaction

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        raise NeedsTransaction

    def few(self, wanted: Range, most: int) -> tuple[list[tuple[bytes, bytes]], bool] | None:
        raise NeedsTransaction

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        raise NeedsTransaction

    def about(self, wanted: Range) -> int:
        raise NeedsTransaction

    def rely_on(self, wanted: Range) -> None:
        raise NeedsTransaction

    @property
    def pending(self) -> Writes:
        raise NeedsTransaction

    @property
    def tracked(self) -> bool:
        return False

    def note_replaced(self, full_keys: set[bytes]) -> None:
        """Mark documents as replaced rather than updated, for the change feed."""
        self.replaced = frozenset(full_keys)

    def time(self) -> float:
        """The time of the store's clock, in seconds since the epoch."""
        return self.engine.time()


class LoneStatement(NewestReads):
    """The first attempt of a statement. ``work`` is its function, which is called again only if ``repeatable``."""

    __slots__ = ("_given", "_looked_at", "_work", "decided", "read", "relied_on", "result", "scanned", "submitted")

    def __init__(self, engine: Engine, work: Callable[..., Any], given: tuple[Any, ...], repeatable: bool) -> None:
        self.engine = engine
        self.ts = engine.registry.published  # before the first read
        self.read: Callable[[bytes], bytes | None] = engine.reader.get_latest
        self.replaced = None
        self.relied_on: Iterable[bytes] = ()
        self.scanned = False
        """Whether it relies on more than its written and named keys."""
        self.submitted = False
        self.decided = False
        """Whether ``result``, or the error, was computed under the commit lock."""
        self.result: Any = None
        self._work = work if repeatable else None
        self._given = given
        self._looked_at: list[bytes] | None = None

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The values of many full keys. A value that was committed after the instant may be missing."""
        if self._looked_at is not None:
            self.scanned = True
        self._looked_at = full_keys
        return self.engine.reader.get_many(full_keys, self.ts)

    def first(self, wanted: Range) -> tuple[bytes, bytes] | None:
        """The first entry of a bounded range of full keys, with the user's key."""
        self.scanned = True
        entry = self.engine.reader.first(wanted, self.ts)
        return (entry[0][KEYSPACE_PREFIX:], entry[1]) if entry is not None else None

    def apply_one(self, full_key: bytes, value: bytes | None, relied_on: bytes, before: bytes | None) -> None:
        """The same as ``apply``, for one key."""
        engine, writes = self.engine, {full_key: value}
        catalog = engine.catalog
        names = catalog.names_to_log(writes) if catalog.unlogged else None
        if names is None and self.replaced is None and self._looked_at is None and not engine.before_images:
            payload = encode_one(engine.time(), writes, before is not None)
            self.relied_on, self.submitted = (relied_on,), True
            if engine.committer.commit_at_once(writes, payload, self.ts, 0, engine.durable):
                return
        self._submit(writes, (relied_on,), [before])

    def apply(
        self,
        writes: Writes,
        relied_on: Iterable[bytes],
        before: Writes | None = None,
        merging: frozenset[bytes] = frozenset(),
    ) -> None:
        """Commit the result of the statement."""
        if merging:
            raise NeedsTransaction
        self._submit(writes, relied_on, _told(self, writes, before))

    def _submit(self, writes: Writes, relied_on: Iterable[bytes], before: list[bytes | None]) -> None:
        engine = self.engine
        time, names, payload = _encoded(self, writes, before)
        self.relied_on = relied_on
        if self._looked_at is not None and not writes.keys() >= set(self._looked_at):
            self.scanned = True
        self.submitted = True
        if names is None and engine.committer.commit_at_once(writes, payload, self.ts, 0, engine.durable):
            return
        engine.committer.submit(
            Request(
                writes=writes,
                seen=self.ts,
                time=time,
                payload=payload,
                durably=engine.durable,
                names=names,
                replaced=self.replaced,
                alone=self,
            )
        )

    def again(self, request: Request, earlier: Sequence[Request]) -> bool:
        """Run the statement again, and replace the writes of its request by the new ones. There are none if it now ends
        without a commit or with an error, which is then stored in the request. Returns False if it cannot run here.
        Called by the leader of a commit group, which holds the commit lock. ``earlier`` are the accepted members of the
        group."""
        work = self._work
        if work is None:
            return False
        turn = TurnStatement(self.engine, earlier)
        try:
            self.result = work(turn, *self._given)
            writes = turn.writes
            if writes:
                request.time, request.names, request.payload = _encoded(turn, writes, turn.before)
            request.writes, request.replaced, request.seen = writes, turn.replaced, turn.ts
        except NeedsTransaction:
            return False
        except Exception as error:
            request.writes = {}
            request.error = error
        self.decided = True
        return True


class TurnStatement(NewestReads):
    """A statement that runs under the commit lock, in the thread that holds the lock. It reads the newest state
    overlaid with the pending writes of ``earlier`` requests, and collects its own writes."""

    __slots__ = ("_newest", "_own", "before", "writes")

    def __init__(self, engine: Engine, earlier: Sequence[Request]) -> None:
        self.engine = engine
        self.ts = engine.registry.published
        self.replaced = None
        self._newest: Callable[[bytes], bytes | None] = engine.reader.get_latest
        self._own: Writes = {}
        for each in earlier:
            self._own.update(each.writes)
        self.writes: Writes = {}
        self.before: list[bytes | None] = []

    def read(self, full_key: bytes) -> bytes | None:
        """The value of a full key."""
        return self._own[full_key] if full_key in self._own else self._newest(full_key)

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The values of many full keys."""
        return [self.read(full_key) for full_key in full_keys]

    def first(self, wanted: Range) -> tuple[bytes, bytes] | None:
        """The first entry of a bounded range of full keys, with the user's key."""
        own, rest = self._own, wanted
        entry = self.engine.reader.first(rest, self.ts)
        while entry is not None and entry[0] in own:
            rest = rest.beyond(entry[0])
            entry = self.engine.reader.first(rest, self.ts)
        found = [(key, value) for key, value in own.items() if value is not None and wanted.covers(key)]
        if entry is not None:
            found.append(entry)
        if not found:
            return None
        key, value = max(found) if wanted.reverse else min(found)
        return key[KEYSPACE_PREFIX:], value

    def apply_one(self, full_key: bytes, value: bytes | None, relied_on: bytes, before: bytes | None) -> None:
        """The same as ``apply``, for one key."""
        self.writes, self.before = {full_key: value}, [before]

    def apply(
        self,
        writes: Writes,
        relied_on: Iterable[bytes],
        before: Writes | None = None,
        merging: frozenset[bytes] = frozenset(),
    ) -> None:
        """Store the result of the statement."""
        if merging:
            raise NeedsTransaction
        self.writes, self.before = writes, _told(self, writes, before)


def _told(statement: LoneStatement | TurnStatement, writes: Writes, before: Writes | None) -> list[bytes | None]:
    """The values before the writes, in the order of the writes."""
    if before is not None and before.keys() >= writes.keys():
        return [before[full_key] for full_key in writes]
    return statement.read_many(list(writes))


def _encoded(
    statement: NewestReads, writes: Writes, before: list[bytes | None]
) -> tuple[float, dict[str, bytes] | None, bytes]:
    """The time of a commit, the new keyspace names it carries, and its payload."""
    engine = statement.engine
    names = engine.catalog.names_to_log(writes) if engine.catalog.unlogged else None
    time = engine.time()
    payload = encode_payload(time, writes, names, before, engine.before_images, replaced=statement.replaced)
    if len(payload) > MAX_COMMIT:
        raise commit_too_large(payload)
    return time, names, payload


class NotDone:
    """The result of a statement that must run in a transaction."""


NOT_DONE: Final = NotDone()


def run_alone(
    engine: Engine, work: Callable[..., _Result], given: tuple[Any, ...], *, repeatable: bool
) -> _Result | NotDone:
    """Run a statement that writes once, at its end. ``repeatable`` says that it reads and writes few keys, so that it
    may run again under the commit lock. Returns NOT_DONE if it must run in a transaction."""
    statement = LoneStatement(engine, work, given, repeatable)
    try:
        result = work(statement, *given)
    except (NeedsTransaction, TransientError):
        return NOT_DONE
    except Exception:
        if statement.decided or engine.registry.published == statement.ts:
            raise
        return NOT_DONE
    if statement.decided:
        found: _Result = statement.result
        return found
    if not statement.submitted and engine.registry.published != statement.ts:
        return NOT_DONE  # nothing was committed, and its reads may be of more than one instant
    return result
