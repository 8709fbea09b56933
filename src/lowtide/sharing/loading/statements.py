"""Applies a job of RDF statements as one transaction: all of them are added or removed, or none.

The key of a staged statement is MessagePack: subject, predicate, object and graph, each as the parts of a term (see
``quads/parts.py``), with nil for the default graph. Its document is ``e`` (explicit) or ``i`` (inferred), as in the
indexes. For changes, the number of their commit precedes it (``staged_changes``). Terms get their ids here, in the
process that commits, because ids depend on the dictionary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from lowtide.engine.statements.runners import PrefixOf
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.sharing.loading.apply import Batches
from lowtide.sharing.loading.job import Counts, How
from lowtide.sharing.loading.staged_changes import decode_change
from lowtide.system.extras import require

Parts = tuple[str | None, ...]
"""The parts of a term: text, kind, datatype, language."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[Parts, Parts, Parts, Parts | None]).decode


def encode_statement(s: Parts, p: Parts, o: Parts, g: Parts | None) -> bytes:
    """Return the key under which a statement is staged."""
    return _encode((s, p, o, g))


def apply_statements(tx: EngineTransaction, prefix_of: PrefixOf, name: str, how: How, batches: Batches) -> Counts:
    """Apply a job to a quad store. ``upsert`` is the same as ``append``: a statement that exists is not added again."""
    purpose = "taking RDF statements into a store, in the process that owns it,"
    require("rdflib", "rdf", purpose)
    require("numpy", "rdf", purpose)
    from lowtide.quads.changing import QuadChange

    change = QuadChange(tx, prefix_of, name, tx.engine.caches)
    counts = Counts()
    match how:
        case "delete":
            for keys, _ in batches:
                counts.deleted += _remove(change, keys)
        case "overwrite":
            counts = _overwrite(change, batches)
        case "changes":
            counts = _change(change, batches)
        case _:
            for keys, values in batches:
                counts.inserted += _add(change, zip(keys, values, strict=True))
    change.apply()
    return counts


def _add(change: Any, staged: Iterable[tuple[bytes, bytes]]) -> int:
    """Add statements, the inferred ones last: adding an inferred statement that is explicit changes nothing."""
    found: dict[bytes, list[bytes]] = {b"e": [], b"i": []}
    for key, value in staged:
        found[value].append(key)
    return sum(change.add(list(_statements(keys)), inferred=value == b"i") for value, keys in found.items() if keys)


def _remove(change: Any, keys: list[bytes]) -> int:
    """Remove the statements that exist."""
    reader = change.reader()
    statements = list(_statements(keys))
    terms = list(dict.fromkeys(each for statement in statements for each in statement if each is not None))
    ids: dict[Any, bytes | None] = dict(zip(terms, reader.ids_of(terms), strict=True))
    from lowtide.quads.ids import DEFAULT_GRAPH

    found = []
    for statement in statements:
        quad = [DEFAULT_GRAPH if each is None else ids[each] for each in statement]
        if None not in quad:
            found.append(tuple(quad))
    found = list(dict.fromkeys(found))
    return int(change.remove(found)) if found else 0


def _overwrite(change: Any, batches: Batches) -> Counts:
    """Replace all statements by these. Statements that do not change are not touched."""
    from lowtide.quads.indexes import quad_of

    old: dict[Any, bytes] = {}
    for value in (b"e", b"i"):
        order, chunks = change.reader().scan_ids(inferred=value == b"i")
        old.update((quad_of(order, key), value) for chunk in chunks for key in chunk)
    new: dict[Any, bytes] = {}
    for keys, values in batches:
        for quad, value in zip(change.ids_of(list(_statements(keys))), values, strict=True):
            new[quad] = b"e" if new.get(quad) == b"e" else value
    gone = [quad for quad in old if quad not in new]
    other = {quad: value for quad, value in new.items() if old.get(quad) != value}
    doomed = [*gone, *(quad for quad in other if quad in old)]
    if doomed:
        change.remove(doomed)
    for value in (b"e", b"i"):
        change.add_ids([quad for quad, each in other.items() if each == value], value == b"i")
    fresh = sum(quad not in old for quad in other)
    return Counts(inserted=fresh, replaced=len(other) - fresh, deleted=len(gone))


def _change(change: Any, batches: Batches) -> Counts:
    """Apply the last change of each statement. If a commit deletes and inserts the same statement, it has made an
    inferred statement explicit or the other way round, and the insert is the last."""
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    for keys, staged in batches:
        for key, each in zip(keys, map(decode_change, staged), strict=True):
            known = latest.get(key)
            if known is None or known[0] < each.version or (known[0] == each.version and known[1] is None):
                latest[key] = each.version, each.document
    deleted = _remove(change, [key for key, (_, value) in latest.items() if value is None])
    inserted = _add(change, [(key, value) for key, (_, value) in latest.items() if value is not None])
    return Counts(inserted=inserted, deleted=deleted)


def _statements(keys: Iterable[bytes]) -> Iterator[tuple[Any, Any, Any, Any]]:
    """The statements of staged keys, as terms. A term that occurs often is created once."""
    from lowtide.quads.parts import term_of_parts

    made: dict[Parts | None, Any] = {None: None}
    for key in keys:
        statement = _decode(key)
        for parts in statement:
            if parts is not None and parts not in made:
                made[parts] = term_of_parts(parts)
        s, p, o, g = statement
        yield made[s], made[p], made[o], made[g]
