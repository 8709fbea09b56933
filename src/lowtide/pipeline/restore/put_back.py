"""Undoes a bad migration: the difference between two archived commits, in one transaction.

Documents that changed between ``good`` and ``bad`` are reset to their state at ``good``, but only if the live store
still has their state at ``bad``. A document that was changed since is a conflict: it is reported and left alone, unless
``force`` is given. A document whose unique value another document has now is a conflict too; ``force`` does not
overwrite that. Everything else in the store stays unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from lowtide.documents.collection import Collection
from lowtide.errors import DuplicateKeyError, UsageError
from lowtide.pipeline.travel.instants import At
from lowtide.pipeline.travel.travel import diff
from lowtide.store.opening import open_store
from lowtide.store.store import Store
from lowtide.values.extended import dumps, loads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN: Final = 1000
"""Conflicts that a report lists one by one."""


@dataclass(frozen=True)
class PutBackConflict:
    """A document that was changed after ``bad``, or whose value of a unique index another document has got since.
    Texts are Extended JSON; None stands for no document."""

    id: Any
    good: str | None
    bad: str | None
    now: str | None


@dataclass(frozen=True)
class PutBackReport:
    """What was put back. ``unchanged`` documents are as they were at ``good`` already; ``conflicts`` were left alone,
    or, with ``force``, overwritten. ``commit`` is None for a dry run."""

    collection: str
    put_back: int
    unchanged: int
    conflicts: tuple[PutBackConflict, ...]
    more_conflicts: int
    commit: int | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def put_back(
    spark: SparkSession,
    archive_path: str | os.PathLike[str],
    store: Store | str | os.PathLike[str],
    collection: str,
    good: At,
    bad: At | None = None,
    *,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[str], None] | None = None,
) -> PutBackReport:
    """Undo, on the live store, what happened to a collection after ``good`` up to ``bad``, by default the last commit
    that is archived. The store is an open one, or its directory.

    All of it is one transaction. It fails with ConflictError if another one changes the same documents meanwhile; then
    nothing was changed, and it can be repeated.
    """
    told = progress or (lambda _: None)
    told(f"comparing collection {collection!r} at both commits")
    changes = diff(spark, archive_path, good, bad, collection)
    if isinstance(store, Store):
        return _apply(store, collection, changes, force=force, dry_run=dry_run)
    with open_store(store) as opened:
        return _apply(opened, collection, changes, force=force, dry_run=dry_run)


def _apply(store: Store, collection: str, changes: DataFrame, *, force: bool, dry_run: bool) -> PutBackReport:
    if not isinstance(collection, str) or not collection:
        raise UsageError(f"a collection is named by a string, not {collection!r}")
    tx = store.begin(read_only=dry_run)
    try:
        counts = _Counts()
        for good, bad in changes.select("before", "after").toLocalIterator():
            counts.judge(tx.collection(collection), good, bad, force=force, dry_run=dry_run)
        counts.finish(tx.collection(collection))
        commit = None if dry_run else tx.commit()
    except BaseException:
        tx.rollback()
        raise
    if dry_run:
        tx.rollback()
    return PutBackReport(
        collection,
        put_back=counts.put_back,
        unchanged=counts.unchanged,
        conflicts=tuple(counts.conflicts),
        more_conflicts=counts.more,
        commit=commit,
    )


class _Counts:
    """What became of the documents."""

    def __init__(self) -> None:
        self.put_back = self.unchanged = self.more = 0
        self.conflicts: list[PutBackConflict] = []
        self._deferred: list[PutBackConflict] = []
        """Documents with a value of a unique index that another one has now. They were taken out meanwhile."""

    def judge(self, live: Collection, good: str | None, bad: str | None, *, force: bool, dry_run: bool) -> None:
        """Put one document back, if nothing else has happened to it."""
        key = loads(good if good is not None else bad or "{}")["_id"]
        found = live.find_one({"_id": key})
        now = None if found is None else dumps(found).decode()
        verdict = judged(good, bad, now)
        if verdict == "unchanged":
            self.unchanged += 1
            return
        if verdict == "conflict":
            self._conflict(PutBackConflict(key, good, bad, now))
            if not force:
                return
        self.put_back += 1
        if dry_run:
            return
        if good is None:
            live.delete_one({"_id": key})
            return
        try:
            live.replace_one({"_id": key}, loads(good), upsert=True)
        except DuplicateKeyError:
            live.delete_one({"_id": key})
            self._deferred.append(PutBackConflict(key, good, bad, now))

    def finish(self, live: Collection) -> None:
        """Put back the documents whose unique values others had: these may have got their own back since. If they have
        not, it is a conflict, and the document stays as it is."""
        for each in self._deferred:
            try:
                live.insert_one(loads(each.good or "{}"))
            except DuplicateKeyError:
                self.put_back -= 1
                self._conflict(each)
                if each.now is not None:
                    live.insert_one(loads(each.now))

    def _conflict(self, found: PutBackConflict) -> None:
        if len(self.conflicts) < SHOWN:
            self.conflicts.append(found)
        else:
            self.more += 1


def judged(good: str | None, bad: str | None, now: str | None) -> str:
    """Return what to do with a document: ``put back``, or nothing since it is ``unchanged`` or in ``conflict``.

    >>> judged('{"v":1}', '{"v":2}', '{"v":2}'), judged('{"v":1}', '{"v":2}', '{"v":3}')
    ('put back', 'conflict')
    """
    if now == good:
        return "unchanged"
    return "put back" if now == bad else "conflict"
