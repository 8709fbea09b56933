"""``lowtide insert``, ``update`` and ``delete``: each is one transaction."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lowtide.cli.arguments import CollectionName, Json, StorePath
from lowtide.cli.collections import check_exists, counted, in_words
from lowtide.cli.expressions import object_of, objects_of
from lowtide.cli.output import Output
from lowtide.cli.reach import find_store, writing
from lowtide.documents.files.json_array import read_json
from lowtide.documents.files.streams import STANDARD
from lowtide.errors import UsageError
from lowtide.values.extended import to_extended

FilterNeeded = Annotated[
    str,
    typer.Argument(metavar="FILTER", help="Which documents, as Extended JSON; {} for all.", show_default=False),
]


def insert(
    path: StorePath,
    collection: CollectionName,
    documents: Annotated[
        list[str],
        typer.Argument(metavar="DOCUMENT...", help="Extended JSON, or - for standard input.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Insert documents: all of them, or none if one is invalid."""
    store, output = find_store(path), Output(json)
    if documents == [STANDARD]:
        given = [each for batch in read_json(sys.stdin.buffer, "standard input") for each in batch.documents]
    else:
        given = [each for text in documents for each in objects_of(text, "document")]
    if not given:
        raise UsageError("there is no document to insert")
    with writing(store) as opened, opened.transaction() as tx:
        target = tx.collection(collection)
        ids = target.insert_many(given).inserted_ids if len(given) > 1 else [target.insert_one(given[0]).inserted_id]
    output.answer(
        {"path": store, "collection": collection, "inserted_ids": to_extended(list(ids))},
        f"inserted {counted(len(ids))} into {collection}: _id {', '.join(in_words(each, None) for each in ids)}",
    )


def update(
    path: StorePath,
    collection: CollectionName,
    filter: FilterNeeded,
    change: Annotated[
        str,
        typer.Argument(
            metavar="UPDATE",
            help="The update, as Extended JSON with operators; with --replace, the new document.",
            show_default=False,
        ),
    ],
    many: Annotated[bool, typer.Option("--many", help="Change all matching documents, not only the first.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the matching document.")] = False,
    upsert: Annotated[bool, typer.Option("--upsert", help="Insert a document if none matches.")] = False,
    array_filters: Annotated[
        str | None,
        typer.Option("--array-filters", metavar="JSON", help="For $[name] in the update.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Update the first document that a filter matches; with --many, all of them."""
    store, output = find_store(path), Output(json)
    wanted, update = object_of(filter, "filter"), object_of(change, "update")
    filters = None if array_filters is None else objects_of(array_filters, "array filters")
    if replace and (many or filters):
        raise UsageError("--replace replaces one document; leave out --many and --array-filters")
    if not replace and not any(name.startswith("$") for name in update):
        raise UsageError('write the update with operators, such as {"$set": ...}, or use --replace if it is a document')
    with writing(store) as opened:
        if not upsert:
            check_exists(collection, opened.list_collection_names())
        target = opened.collection(collection)
        if replace:
            result = target.replace_one(wanted, update, upsert=upsert)
        else:
            change_these = target.update_many if many else target.update_one
            result = change_these(wanted, update, upsert=upsert, array_filters=filters)
    if json:
        output.document(
            {
                "path": store,
                "collection": collection,
                "matched": result.matched_count,
                "modified": result.modified_count,
                "upserted_id": to_extended(result.upserted_id),
            }
        )
    elif result.upserted_id is not None:
        output.say(f"none matched; inserted one into {collection}: _id {in_words(result.upserted_id, None)}")
    else:
        output.say(f"{counted(result.matched_count)} of {collection} matched, {result.modified_count:,} changed")


def delete(
    path: StorePath,
    collection: CollectionName,
    filter: FilterNeeded,
    many: Annotated[bool, typer.Option("--many", help="Delete all matching documents, not only the first.")] = False,
    json: Json = False,
) -> None:
    """Delete the first document that a filter matches; with --many, all of them."""
    store, output = find_store(path), Output(json)
    wanted = object_of(filter, "filter")
    with writing(store) as opened:
        check_exists(collection, opened.list_collection_names())
        target = opened.collection(collection)
        deleted = (target.delete_many if many else target.delete_one)(wanted).deleted_count
    output.answer(
        {"path": store, "collection": collection, "deleted": deleted}, f"deleted {counted(deleted)} of {collection}"
    )
