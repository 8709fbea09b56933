"""Archives each RDF statement as a document whose ``_id`` is the statement's 32 bytes of ids.

The fields are the columns that Spark reads from a quad store (docs/spark.md), without nulls. A table of statements is
therefore like that of a collection, and the same code reads both. Terms are looked up while a run archives them: at the
pin of a snapshot, or in the store's current state and its log. A deleted statement needs no terms.

A term may no longer exist: a statement was added and removed between two runs, and its term, which is older than the
log, was collected. The version is then archived without that term; only instants between the two commits see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from lowtide.errors import UsageError
from lowtide.pipeline.tables.columns import DELETE, ID
from lowtide.pipeline.tables.writer import VersionRows
from lowtide.quads.hashing import DEFAULT_GRAPH, HASHED, ID_BYTES, IdKind
from lowtide.quads.indexes import INFERRED, QUADS
from lowtide.spark.location import StoreLocation
from lowtide.store.opening import follower_of, open_store
from lowtide.values.codec import encode_document
from lowtide.values.ids import id_key
from lowtide.values.values import Document

Rows = Callable[[list[bytes]], Sequence[bytes | None]]
"""Returns the rows of the dictionary for ids; None for a term that is gone."""
Entry = tuple[bytes, bytes]

_FIELDS: Final = ("s", "s_kind", "p", "p_kind", "o", "o_kind", "o_datatype", "o_language", "g", "g_kind")
SHAPE: Final[Document] = {ID: b"", **dict.fromkeys(_FIELDS, ""), "inferred": False}
"""A document with every field; it gives a table all columns from its first run on."""
_KINDS: Final = {IdKind.IRI: "iri", IdKind.BNODE: "blank", IdKind.VARIABLE: "variable", IdKind.FORMULA: "formula"}


def quads_of(keyspace: str) -> str | None:
    """Return the quad store whose statements a keyspace has; None if it has none.

    >>> quads_of("quads/people/spoc")
    'people'
    """
    name, _, what = keyspace.removeprefix(QUADS).rpartition("/")
    return name if keyspace.startswith(QUADS) and what == "spoc" else None


def statement_id(quad: Sequence[Any]) -> bytes:
    """Return the ``_id`` that a statement of rdflib's terms has in an archive, for ``history(..., quads=name, id=)``.

    It is wrong for a term whose hash another term had taken before, which hardly ever happens.
    """
    from lowtide.quads.ids import encode

    if len(quad) not in (3, 4):
        raise UsageError(f"a statement is a tuple of subject, predicate, object and perhaps graph, not {quad!r}")
    graph = quad[3] if len(quad) == 4 else None
    ids = [encode(each).id for each in quad[:3]]
    return b"".join([*ids, DEFAULT_GRAPH if graph is None else encode(graph).id])


def documents_of(entries: Iterable[Entry], rows: Rows) -> Iterator[Entry]:
    """Yield the key and the stored document of each statement, given as an entry of the index ``spoc``."""
    from lowtide.quads.parts import flat, parts_of_row

    found = list(entries)
    distinct = {key[at : at + ID_BYTES] for key, _ in found for at in range(0, len(key), ID_BYTES)}
    hashed = [id for id in distinct if id[0] >> 4 in HASHED]
    known = dict(zip(hashed, rows(hashed), strict=True)) if hashed else {}
    objects: dict[bytes, dict[str, Any]] = {}
    others: dict[bytes, tuple[str | None, str]] = {}
    for id in distinct - {DEFAULT_GRAPH}:
        if id in known and known[id] is None:
            kind = _KINDS.get(IdKind(id[0] >> 4), "literal")
            objects[id], others[id] = {"o_kind": kind}, (None, kind)
            continue
        parts = parts_of_row(id, known.get(id))
        named = {"o": parts.text, "o_kind": parts.kind, "o_datatype": parts.datatype, "o_language": parts.language}
        objects[id] = {name: value for name, value in named.items() if value is not None}
        others[id] = flat(parts)[:2]
    for key, value in found:
        s, p, o, g = (key[at : at + ID_BYTES] for at in range(0, len(key), ID_BYTES))
        document: Document = {ID: key}
        for name, id in (("s", s), ("p", p), ("g", g)):
            if id != DEFAULT_GRAPH:
                text, kind = others[id]
                document |= {f"{name}_kind": kind} if text is None else {name: text, f"{name}_kind": kind}
        yield id_key(key), encode_document(document | objects[o] | {"inferred": value == INFERRED})


def archived(rows: VersionRows, name: str, store: StoreLocation) -> VersionRows:
    """Return versions of statements, read from the log, as versions of documents."""
    from lowtide.spark.quad_changes import rows_there

    with open_store(store.check(), read_only=True) as opened:
        follower = follower_of(opened)
        kept = [(key, value) for key, value in zip(rows.keys, rows.values, strict=True) if value is not None]
        documents = dict(zip(kept, documents_of(kept, lambda ids: rows_there(follower, name, ids)), strict=True))
    found = VersionRows()
    for kind, version, time, key, value in zip(
        rows.kinds, rows.versions, rows.times, rows.keys, rows.values, strict=True
    ):
        if value is None or kind == DELETE:
            found.add(DELETE, version, time, id_key(key), None)
        else:
            found.add(kind, version, time, *documents[key, value])
    return found


def statement_of(document: Document) -> tuple[Any, Any, Any, Any]:
    """Return the statement, as terms, that was archived as a document."""
    from lowtide.quads.parts import term_of_flat, term_of_parts

    if any(document.get(name) is None for name in ("s", "p", "o")):
        raise UsageError(f"the statement {document[ID].hex()} was archived without all of its terms")
    s, p = (term_of_flat(document[name], document[f"{name}_kind"]) for name in ("s", "p"))
    o = term_of_parts([document.get(name) for name in ("o", "o_kind", "o_datatype", "o_language")])
    g = None if document.get("g") is None else term_of_flat(document["g"], document["g_kind"])
    return s, p, o, g
