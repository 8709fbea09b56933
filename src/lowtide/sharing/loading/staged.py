"""The staging directory: documents on their way into a store, in files that are read only once the job is complete.

``STORE/staging/JOB/`` belongs to one job. It is created with a file ``driver``, which names the process that the job
belongs to. Each attempt of a task writes a file of its own, under a temporary name until it is complete. The job lists
the files that belong to it, so the files of failed or repeated attempts are ignored. Last, the job itself is written,
as ``ready``. The process that applies it renames that to ``claimed`` right before it commits; a caller that cancels
renames it to ``cancelled``. Only one of the two succeeds, so a cancelled job is never committed.

Nothing here is synced to disk. What is committed is in the log. After a crash of the machine the job's driver is gone,
and the job with it. Directories whose driver is gone are removed by the next job, and when the store is opened.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from lowtide.errors import Error, UsageError
from lowtide.sharing.loading.batch_file import BatchFileReader, BatchFileWriter, DamagedFile
from lowtide.sharing.loading.job import Job, StagedFile, check_job_name, decode_job, encode_job
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.system.identity import Identity, ancestor, boot_id, identify

STAGING: Final = "staging"
DRIVER: Final = "driver"
READY, CLAIMED, CANCELLED = "ready", "claimed", "cancelled"
_STAGED: Final = ".staged"
_PART: Final = ".part"
_NEW: Final = ".new"
RUN_BYTES: Final = 32 << 20
"""The approximate number of bytes of keys and documents that a task sorts at a time; see ``runs``."""
_ROWS, _BYTES = 10_000, 4 << 20
"""The approximate size of a batch. A process that merges files has one batch of each run in memory."""
_ABANDONED: Final = 3600.0
"""Seconds after which a directory without its driver's name is removed."""


class JobCancelled(Error):
    """Raised if the job was cancelled before it was committed. Nothing was changed."""


def driver_process() -> Identity:
    """The process that a job belongs to: the Java process above this one, which runs Spark's driver, or else this
    process."""
    found = ancestor("java") or identify(os.getpid())
    assert found is not None
    return found


class _Driver(msgspec.Struct, frozen=True):
    """The process that a job belongs to."""

    process: Identity
    app: str | None = None


def make_staging(store: Path, name: str, driver: Identity, app: str | None = None) -> Path:
    """Create the directory of a new job; ``app`` if it is one of a series."""
    parent = store / STAGING
    if not store.is_dir():
        raise UsageError(f"there is no store in {store}: no such directory")
    parent.mkdir(mode=0o700, exist_ok=True)
    fresh = parent / (check_job_name(name) + _NEW)
    fresh.mkdir(mode=0o700)
    _write_file(fresh / DRIVER, msgspec.json.encode(_Driver(driver, app)))
    final = parent / name
    fresh.rename(final)
    return final


def staging_of(store: Path, name: str) -> Path:
    """The path of a job's directory, which need not exist."""
    return store / STAGING / check_job_name(name)


def remove_staging(store: Path, name: str) -> None:
    """Remove the directory of a job. A second call does nothing."""
    _remove(staging_of(store, name))


def _remove(directory: Path) -> bool:
    """Remove a directory of the staging directory; false if another process has done so.

    It is renamed first, so that an attempt that is still running finds nothing and cannot add files to it. The file
    ``driver`` is removed last, so that what a killed process leaves can be swept.
    """
    doomed = directory.with_name(f"{uuid4().hex}{_NEW}")
    try:
        directory.rename(doomed)
    except FileNotFoundError:
        return False
    for each in doomed.iterdir():
        if each.name != DRIVER:
            each.unlink(missing_ok=True)
    shutil.rmtree(doomed, ignore_errors=True)
    return True


def sweep(store: Path) -> int:
    """Remove the directories of jobs whose driver is gone; return how many. Cheap if there are none."""
    try:
        found = list(os.scandir(store / STAGING))
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return sum(_remove(Path(each.path)) for each in found if _is_litter(Path(each.path)))


def _is_litter(directory: Path) -> bool:
    driver = _driver_of(directory)
    if driver is None:
        with contextlib.suppress(OSError):
            return SYSTEM_CLOCK.time() - directory.stat().st_mtime > _ABANDONED
        return False
    # A store is on a local disk, so a driver with another boot id ran before the last start of this machine.
    return driver.process.boot != boot_id() or driver.process.is_gone


def _driver_of(directory: Path) -> _Driver | None:
    try:
        return msgspec.json.decode((directory / DRIVER).read_bytes(), type=_Driver)
    except (OSError, msgspec.MsgspecError):
        return None


def remove_series(store: Path, driver: Identity, app: str) -> None:
    """Remove the directories of a driver's jobs of one series, of which there is only one at a time."""
    with contextlib.suppress(FileNotFoundError):
        for each in os.scandir(store / STAGING):
            if _driver_of(Path(each.path)) == _Driver(driver, app):
                _remove(Path(each.path))


def _write_file(path: Path, content: bytes) -> None:
    with open(path, "wb", opener=_private) as file:
        file.write(content)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


# The files of documents


def stage(directory: Path, batches: Iterable[tuple[list[bytes], list[bytes] | None]]) -> StagedFile:
    """Write batches of keys and stored documents, or of keys to delete, to the file of this attempt."""
    name = f"{uuid4().hex}{_STAGED}"
    rows = 0
    temporary = directory / (name + _PART)
    try:
        with open(temporary, "wb", opener=_private) as file:
            writer = BatchFileWriter(file)
            for keys, documents in _runs(batches):
                writer.write(keys, documents)
                rows += len(keys)
            writer.finish()
        temporary.rename(directory / name)
    except FileNotFoundError as error:
        raise UsageError(
            f"the write that this task belongs to has ended: its directory {directory} is gone; "
            "it was committed or cancelled without this attempt"
        ) from error
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return StagedFile(name, rows, writer.size)


def _runs(
    batches: Iterable[tuple[list[bytes], list[bytes] | None]],
) -> Iterator[tuple[list[bytes], list[bytes] | None]]:
    """Yield the same rows in batches. As many rows as fit into a run are sorted by their keys."""
    keys: list[bytes] = []
    documents: list[bytes] | None = []
    size = 0
    for more, given in batches:
        keys += more
        if given is None or documents is None:
            documents = None
        else:
            documents += given
        size += sum(map(len, more)) + sum(map(len, given or ()))
        if size >= RUN_BYTES:
            yield from _cut(keys, documents, size)
            keys, documents, size = [], [], 0
    if keys:
        yield from _cut(keys, documents, size)


def _cut(
    keys: list[bytes], documents: list[bytes] | None, size: int
) -> Iterator[tuple[list[bytes], list[bytes] | None]]:
    """Yield a run in batches."""
    if documents is None:
        keys = sorted(keys)
    else:
        keys, documents = ordered(keys, documents)
    step = max(1, min(_ROWS, len(keys) * _BYTES // max(1, size)))
    for start in range(0, len(keys), step):
        yield keys[start : start + step], documents[start : start + step] if documents is not None else None


def ordered(keys: list[bytes], documents: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The rows in the order of their keys.

    >>> ordered([b"b", b"a"], [b"2", b"1"])
    ([b'a', b'b'], [b'1', b'2'])
    """
    if keys == sorted(keys):
        return keys, documents
    places = sorted(range(len(keys)), key=keys.__getitem__)
    return [keys[place] for place in places], [documents[place] for place in places]


def staged_batches(
    directory: Path, files: Iterable[StagedFile], wanted: range | None = None
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The keys and documents of the job's files, a batch at a time; for deletes the documents are None. If ``wanted``
    is given, only the batches of each file at these positions."""
    for each in files:
        with _opened(directory, each) as reader:
            entries = reader.directory
            for entry in entries if wanted is None else entries[wanted.start : wanted.stop]:
                yield reader.read(entry)


def key_bounds(directory: Path, file: StagedFile) -> Iterator[tuple[bytes, bytes]]:
    """The first and the last key of each batch of a file. ``stage`` has sorted them."""
    with _opened(directory, file) as reader:
        for entry in reader.directory:
            yield entry.first, entry.last


@contextlib.contextmanager
def _opened(directory: Path, file: StagedFile) -> Iterator[BatchFileReader]:
    """A file of a job, with as many rows as its task has written."""
    if Path(file.name).name != file.name:
        raise UsageError(f"{file.name!r} is not the name of a staged file")
    path = directory / file.name
    try:
        with open(path, "rb") as source:
            reader = BatchFileReader(source)
            found = sum(each.rows for each in reader.directory)
            if found != file.rows:
                raise UsageError(
                    f"the staged file {path} has {found} rows, but its task wrote {file.rows}; write again"
                )
            yield reader
    except FileNotFoundError as error:
        raise JobCancelled(f"the staged file {path} is gone: the write was cancelled") from error
    except DamagedFile as error:
        raise UsageError(f"the staged file {path} cannot be read: {error}; write again") from error


# The job


def announce(directory: Path, job: Job) -> None:
    """Write the job. This says that everything is staged, and what to do with it."""
    temporary = directory / (READY + _PART)
    _write_file(temporary, encode_job(job))
    temporary.rename(directory / READY)


def announced(directory: Path) -> Job:
    """Read a job that is ready, or that was claimed by a process that is gone."""
    for name in (READY, CLAIMED):
        with contextlib.suppress(FileNotFoundError):
            return decode_job((directory / name).read_bytes())
    raise JobCancelled(f"there is no write to commit in {directory}: it was cancelled, or is done")


def check_wanted(directory: Path) -> None:
    """Raise JobCancelled if the job was cancelled or is done."""
    if not (directory / READY).exists() and not (directory / CLAIMED).exists():
        raise JobCancelled("the write was cancelled while it was being applied; nothing was changed")


def claim(directory: Path) -> None:
    """Ensure, right before the commit, that the job can no longer be cancelled."""
    try:
        (directory / READY).rename(directory / CLAIMED)
    except FileNotFoundError:
        if not (directory / CLAIMED).exists():  # left by an owner that was killed
            raise JobCancelled("the write was cancelled while it was being applied; nothing was changed") from None


def give_up_claim(directory: Path) -> None:
    """Allow the job to be cancelled again, after a commit that failed."""
    with contextlib.suppress(FileNotFoundError):
        (directory / CLAIMED).rename(directory / READY)


def cancel(directory: Path) -> bool:
    """Cancel the job; false if it is being committed, or has ended."""
    try:
        (directory / READY).rename(directory / CANCELLED)
    except FileNotFoundError:
        return (directory / CANCELLED).exists()
    return True
