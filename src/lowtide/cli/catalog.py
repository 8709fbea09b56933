"""``lowtide collections``, ``indexes`` and ``schema``: the collections, their indexes and schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.cli.arguments import CollectionName, Json, StorePath
from lowtide.cli.collections import check_exists, counted, in_words, looking_at
from lowtide.cli.expressions import object_of, order_of
from lowtide.cli.output import Output, busy, measured
from lowtide.cli.reach import find_store, reading, writing
from lowtide.documents.files.streams import reading_from
from lowtide.errors import UsageError
from lowtide.values.extended import dumps, to_extended


def collections(path: StorePath, json: Json = False) -> None:
    """List the collections, with their numbers of documents and their indexes."""
    store, output = find_store(path), Output(json)
    with reading(store) as opened, opened.snapshot() as snapshot:
        found: list[dict[str, Any]] = []
        for name in snapshot.list_collection_names():
            each = snapshot.collection(name)
            found.append(
                {"name": name, "documents": each.estimated_document_count(), "indexes": list(each.index_information())}
            )
    if json:
        output.document({"path": store, "collections": found})
        return
    rows = [(each["name"], each["documents"], ", ".join(each["indexes"])) for each in found]
    output.table(("collection", "documents", "indexes"), rows, none="no collections")


def indexes(
    path: StorePath,
    collection: CollectionName,
    create: Annotated[
        str | None,
        typer.Option(
            "--create", metavar="NAMES", help="Build an index on these fields: city,-age.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The name of the new index.", show_default=False)
    ] = None,
    unique: Annotated[bool, typer.Option("--unique", help="No two documents may have the same values.")] = False,
    sparse: Annotated[bool, typer.Option("--sparse", help="Leave out documents without these fields.")] = False,
    partial: Annotated[
        str | None,
        typer.Option("--partial", metavar="JSON", help="Only documents that this filter matches.", show_default=False),
    ] = None,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="NAME", help="Remove this index.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """List the indexes of a collection; --create builds one, --drop removes one."""
    output = Output(json)
    if create is not None and drop is not None:
        raise UsageError("give --create or --drop, not both")
    if create is None and (name or unique or sparse or partial):
        raise UsageError("--name, --unique, --sparse and --partial need --create")
    if create is not None:
        options: dict[str, Any] = {"unique": unique, "sparse": sparse, "name": name}
        if partial is not None:
            options["partialFilterExpression"] = object_of(partial, "filter")
        _create(find_store(path), output, collection, order_of(create) or [], options)
    elif drop is not None:
        _drop(find_store(path), output, collection, drop)
    else:
        _list(path, output, collection)


def _create(store: Path, output: Output, collection: str, keys: list[tuple[str, int]], options: dict[str, Any]) -> None:
    with writing(store) as opened:
        target = opened.collection(collection)
        total = target.estimated_document_count()
        with measured(f"building an index of {collection}", total) as advance:
            name = target.create_index(keys, progress=lambda done: advance(done, f"{done:,} documents"), **options)
    output.answer({"path": store, "collection": collection, "created": name}, f"{collection} has the index {name}")


def _drop(store: Path, output: Output, collection: str, name: str) -> None:
    with writing(store) as opened:
        check_exists(collection, opened.list_collection_names())
        opened.collection(collection).drop_index(name)
    output.answer(
        {"path": store, "collection": collection, "dropped": name}, f"the index {name} of {collection} is removed"
    )


def _list(path: Path, output: Output, collection: str) -> None:
    with looking_at(path, collection) as found:
        known = found.index_information()
    if output.json:
        output.document({"path": find_store(path), "collection": collection, "indexes": to_extended(known)})
        return
    rows = [(name, _keys(index["key"]), _more(index)) for name, index in known.items()]
    output.table(("index", "fields", "more"), rows, none="no indexes")


def _keys(keys: Any) -> str:
    """The fields as ``--create`` takes them."""
    return ",".join(f"{'-' if direction < 0 else ''}{name}" for name, direction in keys)


def _more(index: dict[str, Any]) -> str:
    words = [name for name in ("unique", "sparse") if index.get(name)]
    if index.get("partialFilterExpression") is not None:
        words.append(f"only {in_words(index['partialFilterExpression'], None)}")
    return ", ".join(words)


def schema(
    path: StorePath,
    collection: CollectionName,
    set: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="FILE",
            help="Set the JSON Schema in this file, or - for standard input.",
            show_default=False,
        ),
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Remove the schema.")] = False,
    json: Json = False,
) -> None:
    """Show the JSON Schema of a collection; --set changes it, and lists the documents that violate it."""
    store, output = find_store(path), Output(json)
    if set is not None and unset:
        raise UsageError("give --set or --unset, not both")
    if set is not None:
        _set_schema(store, output, collection, _schema_in(set))
    elif unset:
        with writing(store) as opened:
            check_exists(collection, opened.list_collection_names())
            opened.collection(collection).set_schema(None)
        output.answer({"path": store, "collection": collection, "schema": None}, f"removed the schema of {collection}")
    else:
        with looking_at(path, collection) as found:
            known = found.schema()
        words = f"{collection} has no schema" if known is None else in_words(known, 0)
        output.answer({"path": store, "collection": collection, "schema": to_extended(known)}, words)


def _schema_in(file: str) -> dict[str, Any]:
    with reading_from(file) as source:
        return object_of(source.stream.read().decode(errors="surrogateescape"), "schema")


def _set_schema(store: Path, output: Output, collection: str, schema: dict[str, Any]) -> None:
    with writing(store) as opened, busy(f"looking for documents of {collection} that violate the schema"):
        violations = opened.collection(collection).set_schema(schema)
    if output.json:
        broken = [{"_id": key, "path": each.path, "reason": each.reason} for key, each in violations]
        output.document({"path": store, "collection": collection, "schema": schema, "violations": to_extended(broken)})
        return
    count = len({dumps(key) for key, _ in violations})
    breaking = f"; {counted(count)} {'breaks' if count == 1 else 'break'} it:" if count else ""
    output.say(f"{collection} has a schema{breaking}")
    if violations:
        rows = [(in_words(key, None), each.path, each.reason) for key, each in violations]
        output.table(("_id", "field", "reason"), rows, none="")
