"""A worker process of an import: decodes pieces of a JSON Lines file, and stages their documents.

``store/staged_import.py`` starts it. It imports little: starting takes as long as staging 100,000 documents.
"""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from lowtide.documents.files.json_lines import read_json_lines
from lowtide.documents.operations import PlainDocuments, prepare
from lowtide.documents.prepared.inserts import prepare_batch
from lowtide.errors import Error
from lowtide.sharing.loading.job import StagedFile
from lowtide.sharing.loading.staged import stage
from lowtide.system.messages import receive, send

_BOM: Final = b"\xef\xbb\xbf"
_CHUNK: Final = 1 << 16
"""How many bytes are decoded at once: so few that their documents stay in the processor's cache until they are encoded.
"""


class FilePiece(msgspec.Struct, frozen=True):
    """Whole lines of a file, to be staged in a directory."""

    directory: str
    file: str
    begin: int
    end: int


class StagedPiece(msgspec.Struct, frozen=True):
    """The answer of a worker. Without a file, the ordinary import must be used."""

    file: StagedFile | None = None


def serve() -> None:
    """The main loop of a worker."""
    gc.disable()  # documents have no cycles
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while data := receive(requests):
        staged = stage_piece(msgspec.msgpack.decode(data, type=FilePiece))
        send(responses, msgspec.msgpack.encode(StagedPiece(staged)))


def stage_piece(piece: FilePiece) -> StagedFile | None:
    """Stage the documents of a piece. None if one of them cannot be imported."""
    with open(piece.file, "rb") as stream:
        stream.seek(piece.begin)
        data = stream.read(piece.end - piece.begin)
    if len(data) < piece.end - piece.begin or (piece.begin and data.startswith(_BOM)):
        return None
    try:
        return stage(Path(piece.directory), _encoded(data, piece.file))
    except Error:
        return None


def _encoded(data: bytes, name: str) -> Iterator[tuple[list[bytes], list[bytes]]]:
    for batch in read_json_lines(io.BytesIO(data), name, _CHUNK):
        documents = PlainDocuments(batch.documents) if batch.plain else batch.documents
        ready = prepare_batch(documents)
        if ready is not None:
            yield ready.keys, ready.encoded
        else:
            each = [prepare(document) for document in documents]
            yield [one.key for one in each], [one.encoded for one in each]
