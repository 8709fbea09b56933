"""The most common statements, which find or delete few documents: flat code from the key to the buffer.

They run directly on a transaction, if all its statements read one instant. All other writes, including those that need
more than rows and simple index entries, go through ``WriteBatch``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from lowtide.documents.catalog import CATALOG, CatalogRow, row_of
from lowtide.documents.indexes.entries import LENGTHS
from lowtide.documents.plans.plan import KeyStretch, Plan
from lowtide.documents.plans.planner import SortKeys
from lowtide.documents.prepared.bound import PreparedFilter
from lowtide.documents.prepared.lookups import Lookup
from lowtide.documents.results import DeleteResult
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine import (
    NOWHERE,
    AutocommitStatements,
    Engine,
    EngineTransaction,
    PrefixOf,
    Range,
    ReadView,
    Statements,
    Writes,
    WriteView,
)
from lowtide.values.codec import decode_document
from lowtide.values.ids import ID_TYPES, MAX_ID
from lowtide.values.ordering import ENCODERS
from lowtide.values.partial import Decode
from lowtide.values.values import Document

_Result = TypeVar("_Result")
_MOST = 256
"""Maximum number of entries that are read at once."""
_MOST_MEMBERS = 1024
"""Maximum number of documents that are read at once by their ids."""


_MOST_PLACES = 4096
"""Maximum number of collections whose location a store caches."""
_NO_PLACES: dict[str, Any] = {}


class Few(NamedTuple):
    """The full keys of some documents, and the documents, encoded."""

    full_keys: list[bytes]
    stored: list[bytes]
    rest: Plan | None = None
    """The plan that finds the documents after these; None if these are all."""


_NOTHING = Few([], [])


class InstantView(ReadView, Protocol):
    """A transaction or snapshot that reads one instant."""

    @property
    def engine(self) -> Engine: ...

    def first(self, wanted: Range) -> tuple[bytes, bytes] | None: ...

    def few(self, wanted: Range, most: int) -> tuple[list[tuple[bytes, bytes]], bool] | None: ...


class WritableView(InstantView, WriteView, Protocol):
    """A transaction that reads one instant."""

    def apply_one(self, full_key: bytes, value: bytes | None, relied_on: bytes, before: bytes | None) -> None: ...


def at_once(
    statements: Statements,
    work: Callable[..., _Result],
    *given: Any,
    repeatable: bool = False,
) -> _Result | None:
    """Run ``work``, which reads one instant and writes once, at its end, in the caller's transaction or as a lone
    statement. Returns None if each statement of the caller's transaction reads its own instant. ``repeatable`` says
    that it reads and writes few keys, and uses no object that the caller may change."""
    if isinstance(statements, AutocommitStatements):
        return statements.alone(work, given, repeatable=repeatable)
    tx = statements.writable()
    return work(tx, *given) if tx is not None else None


def key_of(filter: Any) -> bytes | None:
    """Return the key of the document that a filter such as ``{"_id": 7}`` selects; None for other filters. A filter
    that is not a dict is an ``_id``."""
    value = filter
    if type(filter) is dict:
        if len(filter) != 1:
            return None
        value = filter.get("_id")
    kind = type(value)
    if kind not in ID_TYPES:
        return None
    try:
        key = ENCODERS[kind](value)
    except UnicodeEncodeError:
        return None
    return key if len(key) <= MAX_ID else None


class Located(NamedTuple):
    """A collection as a transaction or snapshot sees it: its catalog row, the full key of that row, and the prefix of
    its documents' full keys."""

    row: CatalogRow
    row_key: bytes
    prefix: bytes


def located(view: InstantView, name: str) -> Located:
    """Return where a collection is. A transaction caches the result: its snapshot does not change, and its own writes
    to the catalog are in its buffer. The store caches it too, with the encoded row that it was decoded from. Any thread
    may add to that cache; all of them add the same. Prefixes are checked in each transaction: in a joined process the
    owner of the store assigns them, and may assign another one."""
    if type(view) is EngineTransaction:
        known: Located | None = view.memo.get(name)
        if known is not None and known.row_key not in view.writes:
            return known
    engine = view.engine
    catalog = engine.catalog
    prefixes: dict[str, bytes] = catalog.prefixes
    places: dict[str, tuple[Located, bytes | None]] = engine.caches.get(Located, _NO_PLACES)
    place = places.get(name)
    if place is not None:
        found, encoded = place
        row, row_key, documents = found
        # A joined process may have been given another prefix since.
        same = prefixes.get(row.keyspace) == documents and row_key.startswith(prefixes.get(CATALOG, NOWHERE))
        if same and view.read(row_key) == encoded:
            if type(view) is EngineTransaction and row_key not in view.writes:
                view.memo[name] = found
            return found
    prefix = catalog.prefix_of(CATALOG)
    row_key = prefix + name.encode()
    stored = view.read(row_key)
    row = row_of(name, stored)
    found = Located(row, row_key, catalog.prefix_of(row.keyspace))
    if prefix != NOWHERE:
        engine.reader.sparse.add(prefix)  # most collections have no row
        if not places or len(places) >= _MOST_PLACES:
            engine.caches[Located] = places = {}
        places[name] = (found, stored)
    if type(view) is EngineTransaction and row_key not in view.writes:
        view.memo[name] = found
    return found


def find_at(view: InstantView, name: str, key: bytes, decode: Decode = decode_document) -> Document | None:
    """Return the document with this key."""
    stored = view.read(located(view, name).prefix + key)
    return decode(stored) if stored is not None else None


def first_of(
    view: InstantView, name: str, filter: PreparedFilter, sort: SortKeys, decode: Decode = decode_document
) -> tuple[Document | None, bool]:
    """Return the first matching document in the order of ``sort``, and whether the answer is certain; see
    ``few_of``."""
    found = few_of(view, located(view, name), filter, sort, limit=1)
    if found is None:
        return None, False
    return (decode(found.stored[0]) if found.stored else None), True


def few_of(
    view: InstantView, where: Located, filter: PreparedFilter, sort: SortKeys, limit: int = 0, *, begun: bool = False
) -> Few | None:
    """Return the matching documents of a collection in the order of ``sort``, at most ``limit`` (0: no limit). Returns
    None if a plan must run, because it reads more than it returns, has another order, or returns many documents. In the
    last case, if ``begun``, it returns the first ones and the plan that finds the rest."""
    row, _, documents = where
    lookup, values = filter.shape.lookup(row, filter.values, sort, limit > 0), filter.values
    if lookup is None or not lookup.by.ordered:
        return None
    if lookup.members is not None:
        return _members_of(view, documents, lookup, filter, limit)
    if lookup.bounds is None or not lookup.by.exact:
        return None
    low, high = lookup.bounds(values)
    if len(low) > lookup.most:
        return None
    index = lookup.by.index
    prefix = documents if index is None else view.engine.catalog.prefix_of(index.keyspace)
    if lookup.by_key:
        key: bytes | None = low if index is None else view.read(prefix + low)
        return _one(view, documents + key) if key is not None else _NOTHING
    if len(high) > lookup.most or low >= high:
        return None
    wanted = Range(prefix + low, prefix + high, lookup.by.reverse)
    if limit == 1:
        entry = view.first(wanted)
        if entry is None:
            return _NOTHING
        if index is None:
            return Few([documents + entry[0]], [entry[1]])
        return _one(view, documents + (entry[1] if index.unique else entry[0][-entry[1][0] :]))
    few = view.few(wanted, min(limit + 1, _MOST) if limit else _MOST)
    if few is None:
        return None
    entries, whole = few
    rest: Plan | None = None
    if limit and (whole or len(entries) >= limit):
        entries = entries[:limit]
    elif not whole:
        if limit or not begun or not entries:
            return None
        last = entries[-1][0][len(prefix) :]
        stretch = KeyStretch(low, last) if lookup.by.reverse else KeyStretch(last + b"\x00", high)
        rest = replace(lookup.by, stretches=(stretch,))
    if index is None:
        return Few([key for key, _ in entries], [value for _, value in entries], rest)
    if index.unique:
        full_keys = [documents + value for _, value in entries]
    else:
        full_keys = [documents + key[-value[0] :] for key, value in entries]
    if len(full_keys) == 1:
        return _one(view, full_keys[0])
    return _present(full_keys, view.read_many(full_keys), rest) if full_keys else _NOTHING


def _one(view: InstantView, full_key: bytes) -> Few:
    stored = view.read(full_key)
    return Few([full_key], [stored]) if stored is not None else _NOTHING


def _present(full_keys: list[bytes], stored: list[bytes | None], rest: Plan | None = None) -> Few:
    """Drop the keys that have no document."""
    if all(stored):  # no document is empty
        return Few(full_keys, cast("list[bytes]", stored), rest)
    found = [(key, value) for key, value in zip(full_keys, stored, strict=True) if value is not None]
    return Few([key for key, _ in found], [value for _, value in found], rest)


def _members_of(view: InstantView, documents: bytes, lookup: Lookup, filter: PreparedFilter, limit: int) -> Few | None:
    """Return the documents that ``$in`` selects and that match the other conditions."""
    given = lookup.member_keys(filter.values, documents)
    if given is None or len(given) > _MOST_MEMBERS:
        return None
    full_keys = sorted(set(given), reverse=lookup.by.reverse)
    few = _present(full_keys, view.read_many(full_keys))
    shape = filter.shape
    if shape.others:
        matches, decode = shape.compiled_others(filter.values).matches, shape.decode_others
        wanted = list(map(matches, map(decode, few.stored)))
        if False in wanted:
            few = Few(list(compress(few.full_keys, wanted)), list(compress(few.stored, wanted)))
    return Few(few.full_keys[:limit], few.stored[:limit]) if limit else few


def count_of(view: InstantView, name: str, filter: PreparedFilter) -> int | None:
    """Return how many documents match, if ``$in`` selects them by their ids; None if a plan must run."""
    where = located(view, name)
    lookup = filter.shape.lookup(where.row, filter.values, (), False)
    if lookup is None or lookup.members is None:
        return None
    found = few_of(view, where, filter, ())
    return len(found.stored) if found is not None else None


def delete_at(view: WritableView, name: str, key: bytes) -> DeleteResult:
    """Delete the document with this key."""
    row, row_key, prefix = located(view, name)
    full_key = prefix + key
    stored = view.read(full_key)
    if stored is None:
        return DeleteResult(0)
    prefix_of = view.engine.catalog.prefix_of
    if not row.indexes:
        view.apply_one(full_key, None, row_key, stored)
    elif row.flat and (before := entries_of(row, row.decode_indexed(stored), key, prefix_of)) is not None:
        before[full_key] = stored
        view.apply(dict.fromkeys(before), (row_key,), before)
    else:
        batch = WriteBatch(view, prefix_of, name)
        batch.delete((key, stored, decode_document(stored)))
        batch.apply()
    return DeleteResult(1)


def delete_by_key(statements: Statements, name: str, key: bytes) -> DeleteResult | None:
    """Run ``delete_at`` as a statement; see ``at_once``."""
    return at_once(statements, delete_at, name, key, repeatable=True)


def entries_of(row: CatalogRow, document: Document, key: bytes, prefix_of: PrefixOf) -> Writes | None:
    """Return the index entries of a stored document in a collection whose indexes are flat; None if the document has
    several entries in one index."""
    length = LENGTHS[len(key)]
    entries: Writes = {}
    for each in row.entries:
        values = each.only(document) if each.only is not None else None
        if values is None:
            return None
        entries[prefix_of(each.index.keyspace) + values + key] = length
    return entries
