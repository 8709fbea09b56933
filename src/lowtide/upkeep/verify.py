"""Verifies a store: every invariant of manifest, log, base, history and memory.

On an open store, all of them must be checked as of one moment, while commits continue. Verification holds off
checkpoints, so that the boundary does not move, and the release of log segments. Then it briefly takes the commit lock
and records the last commit, the end of the log, and the chains, which are immutable. The base is then read in one LMDB
transaction. A concurrent sweep is not visible in it. Later commits stay in memory and log and are not checked. A
checkpoint that becomes due waits until verification is done.

The pages of the base are checked first, without LMDB (check_pages). LMDB reads them only if they are sound, since it
may end a process that reads a damaged page. Verification therefore always ends with a report.

Locks, in this order: the checkpointer's, the log's hold, the commit lock (released at once), the base's ``steady``.
The holder of the commit lock never waits for one of the others.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.base.pages import Unreadable
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.base.tables import Tables, open_tables, read_tables
from lowtide.engine.base.types import LmdbError
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.living import with_pins
from lowtide.engine.log.segment import segment_paths
from lowtide.engine.recovery.opening import LOCK, MANIFEST, read_manifest
from lowtide.engine.recovery.ownership import describe_holder
from lowtide.errors import CorruptionError, Error, StoreLocked, UsageError
from lowtide.upkeep.agreement import Agreement
from lowtide.upkeep.basis import Running
from lowtide.upkeep.check_base import (
    check_consumers,
    check_history,
    check_meta,
    check_pins,
    check_rows,
    check_tombstones,
)
from lowtide.upkeep.check_chains import check_layer, copy_layers
from lowtide.upkeep.check_log import LogExamination, Piece
from lowtide.upkeep.check_pages import check_pages, new_check
from lowtide.upkeep.newest import Examiner, newest_entries
from lowtide.upkeep.report import REPORT, Examination, VerifyReport

_NEVER = 1 << 62
_ATTEMPTS = 100


def verify_store(running: Running, examiners: Sequence[Examiner] = ()) -> VerifyReport:
    """Verify an open store while it is in use. ``examiners`` check what kinds of data keep in their keyspaces."""
    manifest = Examination("manifest", "files")
    _check_manifest(running.path, running.store_id, manifest)
    with running.checkpointer.held_off(), running.log.kept():
        with running.exclusive():
            running.check_open()
            published = running.registry.published
            segments = running.log.segments()
            layers = copy_layers(running.versions, published)
        boundary = running.versions.boundary  # point: verify.noted
        live = running.registry.timestamps()
        memory = [
            Examination("memory: counters", "versions"),
            Examination("memory: order of the chains", "chains"),
        ]
        log = LogExamination(running.store_id, boundary)
        # Of a segment from before this opening only itself can tell where its frames end.
        pieces = [
            Piece(each.path, each.used if each.used < each.size else None)
            for each in running.without_released(segments)
        ]
        pages = new_check()
        with _sound_tables(running.base, pages) as tables:
            if tables is None:
                return VerifyReport(running.path, boundary, published, (manifest.check(), pages.check()))
            names = tables.names()
            agreement = Agreement(boundary, published, layers)
            consumers = Examination("consumers of the change feed", "consumers")
            horizon = make_horizon("exact", live, published)
            base = _check_base(tables, running.store_id, names, horizon, consumers)
            if tables.boundary != boundary:
                base[0].problem(
                    f"its boundary is {tables.boundary}, in memory it is {boundary}", tables.directory, REPORT
                )
            _walk(log, pieces, names, agreement, tables)
            _guarded(consumers, tables, lambda: check_consumers(tables, published, consumers))
            kinds = [each(names, newest_entries(tables, layers)) for each in examiners]
        if log.last_ts != published:
            log.reach.problem(f"the log ends at commit {log.last_ts}, but {published} was the last one", "log")
        for layer in layers:
            check_layer(layer, names, memory[0], memory[1])
        agreement.compare_chains(names)
    checks = [manifest, *log.checks, agreement.before, pages, *base, agreement.base, *memory, agreement.chains, *kinds]
    return VerifyReport(running.path, boundary, published, tuple(each.check() for each in checks))


def verify_files(path: str | os.PathLike[str], examiners: Sequence[Examiner] = ()) -> VerifyReport:
    """Verify the store or backup in ``path``, which no process has open. No file is changed.

    What opening the store would repair, such as a torn tail of the log, is reported as a note, not as a problem. Raises
    StoreLocked if a process has the store open. Call ``store.verify()`` there.

    >>> import lowtide.upkeep.verify, tempfile
    >>> directory = tempfile.mkdtemp()
    >>> lowtide.open(directory).close()
    >>> lowtide.upkeep.verify.verify_files(directory).ok
    True
    """
    directory = Path(path).absolute()
    if not (directory / MANIFEST).exists():
        raise UsageError(f"{directory} is not a Lowtide store: it has no {MANIFEST}")
    with _unowned(directory):
        return _verify_directory(directory, examiners)


def _verify_directory(directory: Path, examiners: Sequence[Examiner]) -> VerifyReport:
    manifest = Examination("manifest", "files")
    try:
        store_id, _ = read_manifest(directory / MANIFEST)
    except Error as error:
        manifest.examined += 1
        manifest.problem(str(error), directory / MANIFEST)
        return VerifyReport(directory, 0, 0, (manifest.check(),))
    manifest.examined += 1
    pages = new_check()
    try:
        _check_pages_of(directory / "base" / "data.mdb", pages)
        if pages.found:
            return VerifyReport(directory, 0, 0, (manifest.check(), pages.check()))
        with read_tables(directory / "base" / "data.mdb") as tables:
            boundary, names = tables.boundary, tables.names()
            log = LogExamination(store_id, boundary)
            agreement = Agreement(boundary, _NEVER, None)
            consumers = Examination("consumers of the change feed", "consumers")
            checks = _check_base(tables, store_id, names, make_horizon("exact", (), boundary), consumers)
            _walk(log, _pieces(directory, log), names, agreement, tables)
            last_commit = max(boundary, log.last_ts)
            if log.last_ts < boundary:
                log.reach.note(f"the log ends at commit {log.last_ts}, below the boundary, and will be started again")
            _guarded(consumers, tables, lambda: check_consumers(tables, last_commit, consumers))
            kinds = [each(tables.names(), newest_entries(tables, ())) for each in examiners]
    except (CorruptionError, LmdbError) as error:
        pages.problem(str(error), directory / "base")
        return VerifyReport(directory, 0, 0, (manifest.check(), pages.check()))
    examined = [manifest, *log.checks, agreement.before, pages, *checks, agreement.base, *kinds]
    return VerifyReport(directory, boundary, last_commit, tuple(each.check() for each in examined))


def _check_pages_of(data: Path, check: Examination) -> None:
    """Check the pages of a file that no process writes. A missing file is left to the caller."""
    if data.is_file():
        try:
            check_pages(data, check)
        except Unreadable as error:
            check.problem(f"this is not an LMDB file that can be opened: {error}", data)


@contextmanager
def _sound_tables(base: Base, check: Examination) -> Iterator[Tables | None]:
    """Return the tables of an open base if all its pages are sound. Otherwise None, with the problems in ``check``."""
    for attempt in range(_ATTEMPTS):
        with open_tables(base) as tables:
            try:
                check_pages(base.directory / "data.mdb", check, tables.txn.id())
            except Unreadable as error:  # two commits came between the transaction's begin and this look
                if attempt < _ATTEMPTS - 1:
                    continue
                check.problem(f"the meta pages cannot be read: {error}", base.directory / "data.mdb")
            if check.found:
                base.soundness.note(CorruptionError(base.directory / "data.mdb", str(check.problems[0])))
            yield tables if check.found == 0 else None
            return


def _pieces(directory: Path, log: LogExamination) -> list[Piece]:
    paths = segment_paths(directory / "log") if (directory / "log").is_dir() else []
    if not paths:
        log.headers.problem(
            "the log has no segment at all; commits after the last checkpoint are lost", directory / "log"
        )
    return [Piece(path) for path in paths]


def _walk(
    log: LogExamination, pieces: list[Piece], names: dict[bytes, str], agreement: Agreement, tables: Tables
) -> None:
    """Read the log once and compare it with the base. The rest is left to the caller."""
    for commit in log.commits(pieces, names):
        log.reach.examined += 1
        agreement.add(commit)
    _guarded(agreement.base, tables, lambda: agreement.compare_base(tables, names, log.last_ts))


def _check_base(
    tables: Tables, store_id: bytes, names: dict[bytes, str], snapshots: Exact, consumers: Examination
) -> list[Examination]:
    meta = Examination("base: identity, boundary and keyspaces", "entries")
    rows = Examination("base: rows", "rows")
    tombstones = Examination("base: tombstones", "entries")
    pairs = Examination("history: rows and index", "entries")
    intervals = Examination("history: intervals", "versions")
    pins = Examination("pins", "pins")
    rows_of_pins: list[PinRow] = []
    _guarded(pins, tables, lambda: rows_of_pins.extend(check_pins(tables, names, pins)))
    living = with_pins(snapshots, rows_of_pins)
    _guarded(meta, tables, lambda: check_meta(tables, store_id, meta))
    _guarded(rows, tables, lambda: check_rows(tables, names, rows, tombstones))
    _guarded(tombstones, tables, lambda: check_tombstones(tables, names, tombstones))
    _guarded(pairs, tables, lambda: check_history(tables, names, pairs, intervals, living))
    return [meta, rows, tombstones, pairs, intervals, pins, consumers]


def _guarded(check: Examination, tables: Tables, examine: Callable[[], None]) -> None:
    """Run a check, and report a problem if LMDB cannot read its own file."""
    try:
        examine()
    except LmdbError as error:
        check.problem(f"LMDB cannot read its file: {error}", tables.directory)


def _check_manifest(path: Path, store_id: bytes, check: Examination) -> None:
    check.examined += 1
    try:
        found, _ = read_manifest(path / MANIFEST)
    except (Error, OSError) as error:
        check.problem(f"it cannot be read: {error}", path / MANIFEST, "restore the file from a backup")
        return
    if found != store_id:
        check.problem("it belongs to another store", path / MANIFEST, "restore the file from a backup")


@contextmanager
def _unowned(directory: Path) -> Iterator[None]:
    """Keep the store from being opened meanwhile, without changing its files."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # a copy that was never opened
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreLocked(directory, describe_holder(os.pread(descriptor, 4096, 0))) from error
        yield
    finally:
        os.close(descriptor)
