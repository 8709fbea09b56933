"""How commands open collections and print documents."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lowtide.cli.output import Output
from lowtide.cli.reach import find_store, reading
from lowtide.cli.words import clean
from lowtide.errors import UsageError
from lowtide.values.extended import to_extended
from lowtide.values.values import Document


def check_exists(name: str, names: Iterable[str]) -> None:
    """Raise unless ``name`` is one of the collections; a mistyped name would otherwise look empty."""
    known = sorted(names)
    if name not in known:
        others = f"there are {', '.join(known)}" if known else "there are none at all"
        raise UsageError(f"there is no collection {name!r}; {others}")


@contextlib.contextmanager
def looking_at(path: Path, name: str) -> Iterator[Any]:
    """A collection of one snapshot of the store, with or without an owner."""
    with reading(find_store(path)) as opened, opened.snapshot() as snapshot:
        check_exists(name, snapshot.list_collection_names())
        yield snapshot.collection(name)


def print_documents(output: Output, documents: Iterable[Document]) -> int:
    """Print Extended JSON, one document per line, except long ones on a terminal; return how many were printed."""
    count = 0
    for document in documents:
        print(in_words(document, output.width if output.is_terminal else None) if not output.json else line(document))
        count += 1
    return count


def line(document: Any) -> str:
    """A document on one line of ASCII, for scripts."""
    return json.dumps(to_extended(document))


def in_words(document: Any, width: int | None) -> str:
    """A document for people: on one line if it fits into ``width``."""
    plain = to_extended(document)
    text = json.dumps(plain, ensure_ascii=False)
    if width is not None and len(text) > width:
        text = json.dumps(plain, ensure_ascii=False, indent=2)
    return "\n".join(map(clean, text.split("\n")))


def counted(count: int, what: str = "document") -> str:
    """``1 document``, ``2,000 documents``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
