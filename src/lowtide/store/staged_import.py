"""Imports a large JSON Lines file into an empty collection: several processes decode it, and one load writes it.

The file is cut into pieces of whole lines. Worker processes, one per core, decode and encode the documents of a piece
and stage them, sorted by key, like Spark's tasks. All of them are then one job of the loader, which writes them
directly to the base and commits them atomically.

Anything unusual is left to the ordinary import, which is one transaction: an ``_id`` that occurs twice or already
exists, a document that is refused, a line that cannot be decoded. The ordinary import starts from the beginning, and
reports the line and the reason. Nothing is changed until the load is committed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from lowtide.errors import DocumentRefused, OperationFailure, UsageError
from lowtide.sharing.loading import import_worker
from lowtide.sharing.loading.bulk import DIRECT_ROWS
from lowtide.sharing.loading.import_worker import FilePiece, StagedPiece
from lowtide.sharing.loading.job import Job, StagedFile, new_job_name
from lowtide.sharing.loading.runs import MOST_RUNS
from lowtide.sharing.loading.staged import announce, driver_process, make_staging, remove_staging
from lowtide.store.owned import OwnedStore
from lowtide.store.store import Store, backend_of
from lowtide.system.messages import receive, send

LEAST_BYTES: Final = 24 << 20
"""The minimum size of a file for which starting processes pays off."""
PIECE: Final = 8 << 20
"""The minimum size of a piece."""
MOST_WORKERS: Final = 4

Advance = Callable[[int, int], None]
"""Called with the number of bytes and documents staged so far."""


def import_staged(store: Store, collection: str, file: Path, advance: Advance) -> int | None:
    """Import a JSON Lines file. Returns the number of documents; None if nothing was done, because the ordinary import
    must be used."""
    backend = backend_of(store)
    if not isinstance(backend, OwnedStore):
        return None
    if not file.is_file() or file.stat().st_size < LEAST_BYTES or store[collection].find_one({}) is not None:
        return None
    name = new_job_name()
    directory = make_staging(store.path, name, driver_process())
    try:
        files = _stage_all(directory, file, advance)
        if files is None or sum(each.rows for each in files) < DIRECT_ROWS:
            return None
        announce(directory, Job(collection=collection, how="append", files=files))
        try:
            return backend.loader.apply(name).counts.inserted
        except (OperationFailure, DocumentRefused, UsageError):
            return None
    finally:
        remove_staging(store.path, name)


def pieces_of(directory: Path, file: Path) -> list[FilePiece]:
    """Cut a file at the ends of lines, into pieces of about the same size."""
    size = file.stat().st_size
    step = max(PIECE, size // (MOST_RUNS // 2))
    found: list[FilePiece] = []
    with file.open("rb") as stream:
        begin = 0
        while begin < size:
            stream.seek(min(begin + step, size))
            stream.readline()
            end = min(stream.tell(), size)
            found.append(FilePiece(str(directory), str(file.absolute()), begin, end))
            begin = end
    return found


def _stage_all(directory: Path, file: Path, advance: Advance) -> tuple[StagedFile, ...] | None:
    """Stage all pieces of a file, in several processes. None if one of them cannot be staged."""
    before = file.stat()
    pieces = pieces_of(directory, file)
    found: list[StagedFile] = []
    done = 0
    with _Workers(min(MOST_WORKERS, len(os.sched_getaffinity(0)), len(pieces))) as workers:
        for piece, staged in workers.staged(pieces):
            if staged is None:
                return None
            done += piece.end - piece.begin
            found.append(staged)
            advance(done, sum(each.rows for each in found))
    after = file.stat()
    unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return tuple(found) if unchanged else None


class _Workers:
    """Processes that stage pieces. They end with this process: each ends when its standard input is closed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> _Workers:
        program = f"import sys; sys.path[:] = {sys.path!r}; from {import_worker.__name__} import serve; serve()"
        try:
            for _ in range(self._count):
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-c", program],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        start_new_session=True,  # Ctrl-C goes to this process only, which ends them
                    )
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._processes:
            each.kill()
        for each in self._processes:
            each.wait()
            for stream in (each.stdin, each.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def staged(self, pieces: list[FilePiece]) -> Iterator[tuple[FilePiece, StagedFile | None]]:
        """Yield the pieces as they are staged, with their files."""
        left = iter(pieces)  # a list's iterator: any thread may take the next piece from it
        answers: queue.SimpleQueue[tuple[FilePiece, StagedFile | None]] = queue.SimpleQueue()
        for process in self._processes:
            threading.Thread(target=_hand_out, args=(process, left, answers), daemon=True).start()
        for _ in pieces:
            yield answers.get()


def _hand_out(
    process: subprocess.Popen[bytes],
    pieces: Iterator[FilePiece],
    answers: queue.SimpleQueue[tuple[FilePiece, StagedFile | None]],
) -> None:
    """Give pieces to a worker until none are left. If the worker dies, its pieces have no file."""
    assert process.stdin is not None
    assert process.stdout is not None
    for piece in pieces:
        answer = None
        with contextlib.suppress(OSError, ValueError):
            send(process.stdin, msgspec.msgpack.encode(piece))
            answer = receive(process.stdout)
        answers.put((piece, msgspec.msgpack.decode(answer, type=StagedPiece).file if answer else None))
