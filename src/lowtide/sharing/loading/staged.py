"""The staging directory: documents on their way into a store, in files that are not read before the job is complete.

``STORE/staging/JOB/`` belongs to one job. It is made with a file ``driver`` in it, which says which process the job
belongs to. Each attempt of a task writes a file of its own, under a temporary name until it is whole; the job names the
files that count, so what a failed or repeated attempt has left does not. At last the job itself is written, as
``ready``. The process that applies it renames that to ``claimed`` right before it commits; a caller that gives up
renames it to ``cancelled``. Only one of the two succeeds, so a job that was cancelled is never committed after that.

Nothing here is synced to disk: what is committed is in the log, and after a crash of the machine the job's driver is
gone, and the job with it. Directories whose driver is gone are removed by the next job, and when the store is opened.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from lowtide.errors import Error, UsageError
from lowtide.sharing.loading.job import Job, StagedFile, check_job_name, decode_job, encode_job
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.system.extras import require
from lowtide.system.identity import Identity, ancestor, boot_id, identify

STAGING: Final = "staging"
DRIVER: Final = "driver"
READY, CLAIMED, CANCELLED = "ready", "claimed", "cancelled"
KEY, DOCUMENT = "key", "document"
_PART: Final = ".part"
_NEW: Final = ".new"
_ABANDONED: Final = 3600.0
"""Seconds after which a directory that never got its driver's name is litter."""


class JobCancelled(Error):
    """The job was taken back before it was committed; nothing was changed."""


def driver_process() -> Identity:
    """The process that a job belongs to: the Java machine above this process, which runs Spark's driver, or else this
    process itself."""
    found = ancestor("java") or identify(os.getpid())
    assert found is not None
    return found


class _Driver(msgspec.Struct, frozen=True):
    """Whom a job belongs to."""

    process: Identity
    app: str | None = None


def make_staging(store: Path, name: str, driver: Identity, app: str | None = None) -> Path:
    """The directory of a new job, perhaps one of a series."""
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
    """Where the directory of a job is, if it is there."""
    return store / STAGING / check_job_name(name)


def remove_staging(store: Path, name: str) -> None:
    """Remove the directory of a job; harmless when repeated."""
    directory = staging_of(store, name)
    doomed = directory.with_name(f"{name}.{uuid4().hex[:8]}{_NEW}")
    try:
        directory.rename(doomed)  # at once: an attempt that comes late finds nothing, and cannot add to what goes
    except FileNotFoundError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def sweep(store: Path) -> int:
    """Remove the directories of jobs whose driver is gone; how many there were. Cheap if there are none."""
    try:
        found = list(os.scandir(store / STAGING))
    except (FileNotFoundError, NotADirectoryError):
        return 0
    swept = 0
    for each in found:
        if _is_litter(Path(each.path)):
            shutil.rmtree(each.path, ignore_errors=True)
            swept += 1
    return swept


def _is_litter(directory: Path) -> bool:
    driver = _driver_of(directory)
    if driver is None:
        with contextlib.suppress(OSError):
            return SYSTEM_CLOCK.time() - directory.stat().st_mtime > _ABANDONED
        return False
    # A store is on a local disk: who comes from another start of a machine was here before this one's.
    return driver.process.boot != boot_id() or driver.process.is_gone


def _driver_of(directory: Path) -> _Driver | None:
    try:
        return msgspec.json.decode((directory / DRIVER).read_bytes(), type=_Driver)
    except (OSError, msgspec.MsgspecError):
        return None


def remove_series(store: Path, driver: Identity, app: str) -> None:
    """Remove the directories of a driver's jobs of one series; there is only ever one of them at a time."""
    with contextlib.suppress(FileNotFoundError):
        for each in os.scandir(store / STAGING):
            if _driver_of(Path(each.path)) == _Driver(driver, app):
                shutil.rmtree(each.path, ignore_errors=True)


def _write_file(path: Path, content: bytes) -> None:
    with open(path, "wb", opener=_private) as file:
        file.write(content)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


# The files of documents


def stage(directory: Path, batches: Iterable[tuple[list[bytes], list[bytes] | None]]) -> StagedFile:
    """Write batches of keys, and stored forms of documents unless they are to be deleted, to a file of this attempt."""
    pyarrow = _pyarrow()
    schema = pyarrow.schema([(KEY, pyarrow.binary()), (DOCUMENT, pyarrow.binary())])
    name = f"{uuid4().hex}.arrow"
    rows = size = 0
    temporary = directory / (name + _PART)
    try:
        with open(temporary, "wb", opener=_private) as file, pyarrow.ipc.new_file(file, schema) as writer:
            for keys, documents in batches:
                key_column = pyarrow.array(keys, pyarrow.binary())
                if documents is None:
                    document_column = pyarrow.nulls(len(keys), pyarrow.binary())
                else:
                    document_column = pyarrow.array(documents, pyarrow.binary())
                batch = pyarrow.record_batch([key_column, document_column], schema=schema)
                writer.write_batch(batch)
                rows += len(keys)
                size += batch.nbytes
        temporary.rename(directory / name)
    except FileNotFoundError as error:
        raise UsageError(
            f"the write that this task belongs to is over: its directory {directory} is gone; "
            "it was committed or given up without this attempt"
        ) from error
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return StagedFile(name, rows, size)


def staged_batches(directory: Path, files: Iterable[StagedFile]) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The keys and documents of the files that count, a batch at a time; for deletes the documents are None."""
    pyarrow = _pyarrow()
    for each in files:
        if Path(each.name).name != each.name:
            raise UsageError(f"{each.name!r} is not the name of a staged file")
        found = 0
        try:
            with pyarrow.OSFile(str(directory / each.name), "rb") as source, pyarrow.ipc.open_file(source) as reader:
                for place in range(reader.num_record_batches):
                    batch = reader.get_batch(place)
                    found += batch.num_rows
                    yield batch.column(KEY).to_pylist(), batch.column(DOCUMENT).to_pylist()
        except FileNotFoundError as error:
            raise JobCancelled(f"the staged file {directory / each.name} is gone: the write was given up") from error
        except pyarrow.ArrowInvalid as error:
            raise UsageError(f"the staged file {directory / each.name} cannot be read: {error}; write again") from error
        if found != each.rows:
            raise UsageError(
                f"the staged file {directory / each.name} has {found} rows, and its task wrote {each.rows}; write again"
            )


def _pyarrow() -> Any:
    purpose = "staging documents, and taking them into a store in the process that owns it,"
    require("pyarrow.ipc", "arrow", purpose)
    return require("pyarrow", "arrow", purpose)


# The job


def announce(directory: Path, job: Job) -> None:
    """Say that everything is staged, and what is to be done with it."""
    temporary = directory / (READY + _PART)
    _write_file(temporary, encode_job(job))
    temporary.rename(directory / READY)


def announced(directory: Path) -> Job:
    """The job that is ready, or was claimed by a process that is gone."""
    for name in (READY, CLAIMED):
        with contextlib.suppress(FileNotFoundError):
            return decode_job((directory / name).read_bytes())
    raise JobCancelled(f"there is no write to commit in {directory}: it was given up, or is done")


def check_wanted(directory: Path) -> None:
    """Raise JobCancelled unless the job is still to be done."""
    if not (directory / READY).exists() and not (directory / CLAIMED).exists():
        raise JobCancelled("the write was given up while it was being applied; nothing was changed")


def claim(directory: Path) -> None:
    """Ensure, right before the commit, that the job can no longer be cancelled."""
    try:
        (directory / READY).rename(directory / CLAIMED)
    except FileNotFoundError:
        if not (directory / CLAIMED).exists():  # of an owner that was killed
            raise JobCancelled("the write was given up while it was being applied; nothing was changed") from None


def give_up_claim(directory: Path) -> None:
    """Let the job be taken back again, after a commit that failed."""
    with contextlib.suppress(FileNotFoundError):
        (directory / CLAIMED).rename(directory / READY)


def cancel(directory: Path) -> bool:
    """Take the job back; false if it is being committed, or is over."""
    try:
        (directory / READY).rename(directory / CANCELLED)
    except FileNotFoundError:
        return (directory / CANCELLED).exists()
    return True
