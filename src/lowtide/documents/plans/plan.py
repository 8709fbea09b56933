"""A plan: what is read to answer a query, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from lowtide.documents.indexes.spec import PRIMARY, Index


class KeyStretch(NamedTuple):
    """The keys of an index from ``low`` on, before ``high``; without the keyspace."""

    low: bytes
    high: bytes


@dataclass(slots=True)
class Plan:
    """What a query reads. ``index`` is None if it reads the documents themselves, in ``_id`` order.

    ``ordered`` says that they come in the order of the sort. ``exact`` says that each of them matches, so that entries
    can be counted without reading the documents. ``branches``, for an ``$or``, replace all the rest.
    """

    index: Index | None = None
    stretches: tuple[KeyStretch, ...] | None = None
    """In ascending order; None for everything."""
    keys: tuple[bytes, ...] | None = None
    """The exact keys, if they are known, instead of stretches: of documents, or of entries of a unique index."""
    reverse: bool = False
    ordered: bool = True
    exact: bool = False
    repeats: bool = False
    """Whether a document may come more than once."""
    branches: tuple[Plan, ...] = ()
    merged: tuple[int, ...] = ()
    """Where the stretches are merged: after how many bytes of its keys each stretch has the order that is asked for."""

    @property
    def ranges(self) -> int:
        """How many parts of the index are read."""
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
