"""``Plan``: what a query reads, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from lowtide.documents.indexes.spec import PRIMARY, Index


class KeyStretch(NamedTuple):
    """The index keys ``low <= key < high``, without the keyspace prefix."""

    low: bytes
    high: bytes


@dataclass(slots=True)
class Plan:
    """What a query reads. ``index`` is None for a scan of the documents themselves, in ``_id`` order.

    ``ordered`` says that the results come in sort order. ``exact`` says that every entry read is a match,
    so entries can be counted without reading documents. ``branches`` are the plans of an ``$or``; if set,
    no other field is used.
    """

    index: Index | None = None
    stretches: tuple[KeyStretch, ...] | None = None
    """The key ranges to read, in ascending order; None for all keys."""
    keys: tuple[bytes, ...] | None = None
    """The exact keys, if known, instead of stretches: of documents, or of entries of a unique index."""
    reverse: bool = False
    ordered: bool = True
    exact: bool = False
    repeats: bool = False
    """Whether a document may be read more than once."""
    branches: tuple[Plan, ...] = ()
    merged: tuple[int, ...] = ()
    """If the stretches are merged: the length of each stretch's key prefix, after which its keys are in sort order."""

    @property
    def ranges(self) -> int:
        """The number of index ranges that are read."""
        return len(self.keys if self.keys is not None else self.stretches if self.stretches is not None else ((),))

    @property
    def reads_everything(self) -> bool:
        return self.index is None and self.stretches is None and self.keys is None and not self.branches

    def described(self) -> dict[str, Any]:
        """Return the plan in the form of ``explain``, in MongoDB's terms."""
        if self.branches:
            stages = [each.described() for each in self.branches]
            return {"stage": "SUBPLAN", "inputStage": {"stage": "OR", "inputStages": stages}}
        direction = "backward" if self.reverse else "forward"
        if self.index is None:
            if self.stretches is None and self.keys is None:
                return {"stage": "COLLSCAN", "direction": direction}
            return {"stage": "IDSCAN", "indexName": PRIMARY, "direction": direction, "ranges": self.ranges}
        scan = {
            "stage": "IXSCAN",
            "indexName": self.index.name,
            "keyPattern": dict(self.index.keys),
            "isMultiKey": self.index.multikey,
            "isUnique": self.index.unique,
            "direction": direction,
            "ranges": self.ranges,
        }
        return {"stage": "FETCH", "inputStage": {"stage": "SORT_MERGE", "inputStage": scan} if self.merged else scan}
