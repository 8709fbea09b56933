"""A load job: what to do with the staged documents, and the result."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

from lowtide.errors import UsageError
from lowtide.values.ids import new_id

How = Literal["append", "upsert", "delete", "overwrite", "changes"]
BULK_BYTES: Final = 256 << 20
"""The default number of staged bytes above which a job is no longer one transaction in memory."""
_VERSION: Final = 2
_NAME: Final = re.compile(r"[0-9a-f]{32}")


class StagedFile(msgspec.Struct, frozen=True):
    """A file that belongs to the job, as described by the task that wrote it."""

    name: str
    rows: int
    bytes: int
    """The bytes of keys and documents."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job. ``app`` and ``version`` make it part of a series, such as the batches of a stream: a job whose version
    is not greater than the last one committed is done already."""

    collection: str = ""
    how: How
    quads: str | None = None
    """A quad store, instead of a collection: the files contain statements."""
    files: tuple[StagedFile, ...] = ()
    app: str | None = None
    version: int | None = None
    bulk_bytes: int = BULK_BYTES
    types: dict[str, Any] | None = None
    """The types of the written fields, to store with the collection; see ``documents/column_types.py``."""
    format: int = _VERSION

    @property
    def target(self) -> str:
        """What the job writes to. No name of a collection begins with a slash."""
        return self.collection if self.quads is None else f"/{self.quads}"

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.files)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)


class Counts(msgspec.Struct):
    """The numbers of documents that a job changed."""

    inserted: int = 0
    replaced: int = 0
    deleted: int = 0


class Receipt(msgspec.Struct, frozen=True):
    """The result of a job: its commit and its counts. ``repeated`` if it was done before; ``skipped`` if a later job of
    its series was done before."""

    ts: int
    counts: Counts
    repeated: bool = False
    skipped: bool = False


def new_job_name() -> str:
    """A unique name for a job. Names sort by the time of their creation."""
    return new_id().hex


def check_job_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not the name of a load job")
    return name


def encode_job(job: Job) -> bytes:
    return msgspec.json.encode(job)


def decode_job(encoded: bytes) -> Job:
    """Decode a job, which another version of Lowtide may have written."""
    try:
        job = msgspec.json.decode(encoded, type=Job)
    except msgspec.MsgspecError as error:
        raise UsageError(f"the load job cannot be decoded: {error}") from error
    if job.format != _VERSION:
        raise UsageError(
            f"the load job has format {job.format}, and this process reads {_VERSION}: use the same version of Lowtide"
        )
    if (job.app is None) != (job.version is None):
        raise UsageError("a load job of a series needs an app and a version")
    if job.version is not None and job.version < 0:
        raise UsageError(f"the version of a load job must be at least 0, not {job.version}")
    return job
