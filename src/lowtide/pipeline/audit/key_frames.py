"""What comes out of all keys, on Spark: a sketch of all, and the audit of those that need one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from lowtide.audit.history import Name
from lowtide.pipeline.audit import steps
from lowtide.pipeline.audit.batches import BACK, COLUMNS, COUNT, FIRST, GLIMPSE, SCHEMA, SHARE
from lowtide.pipeline.audit.frames import POSITIONS, Keep, few, figures, grouped, is_a, rows_of
from lowtide.pipeline.audit.pieces import Pieces
from lowtide.pipeline.audit.sketch import sketch_keys
from lowtide.pipeline.audit.transactions import Scale

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARES = 2_000_000
"""Shares that one task sketches, at most, about."""


class KeyFrames:
    """What comes out of the keys: of those that are not plain at once, and of plain ones as far as it is needed.

    ``audited`` has everything about the keys that were audited one by one. Of the others, which were sketched, ``back``
    has the edges that lead back, ``spans`` those of reads, ``firsts`` the first writes; and ``in_pieces``, once that is
    known, everything about those of them that transactions in pieces have to do with.
    """

    def __init__(self, keep: Keep, divided: DataFrame, trusted: set[Name], scale: Scale) -> None:
        self._keep = keep
        self._shares = rows_of(divided, SHARE)
        self._audit = partial(steps.audit_keys, scale, trusted)
        self._position = sql.col(POSITIONS[scale]).alias("at")
        self._sketched: DataFrame | None = None
        self._nothing = divided.where("false")
        self.audited = self.in_pieces = self.back = self.firsts = self._nothing

    def audit_all(self) -> None:
        """Audit all keys one by one."""
        self.audited = self._audited(self._shares)

    def sketch(self, count: int) -> None:
        """Look at all keys at once, and audit those one by one that are not plain."""
        version = sql.col("other_at").alias("version")
        rows = self._shares.select(*("key", "name", self._position, version, "number", "size"))
        parts = max(int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1), count // _SHARES)
        self._sketched = self._keep(rows.repartition(parts, "key").mapInArrow(sketch_keys, SCHEMA))
        self.back, self.firsts = rows_of(self._sketched, BACK), rows_of(self._sketched, FIRST)
        others = few(rows_of(self._sketched, COUNT).select("key"))
        if others is not None:
            self.audited = self._audited(self._shares.join(others, "key", "left_semi").select(*COLUMNS))

    def _audited(self, shares: DataFrame) -> DataFrame:
        return self._keep(grouped(shares, "key").mapInArrow(self._audit, SCHEMA))

    @property
    def spans(self) -> DataFrame:
        spans = rows_of(self.audited, GLIMPSE)
        return spans if self._sketched is None else spans.union(rows_of(self._sketched, GLIMPSE))

    def figures(self) -> dict[str, int]:
        found = figures(
            self.audited,
            firsts=sql.count_if(is_a(FIRST)),
            unplaced=sql.sum(sql.when(is_a(COUNT), sql.col("begin"))),
            unresolved=sql.sum(sql.when(is_a(COUNT), sql.col("end"))),
        )
        if self._sketched is not None:
            found["firsts"] += figures(self._sketched, firsts=sql.count_if(is_a(FIRST)))["firsts"]
        return found

    def look_again(self, pieces: Pieces, suspects: DataFrame | None) -> None:
        """Audit those of the plain keys one by one that a transaction in a piece, or a suspect, has to do with."""
        if self._sketched is None:
            return
        wanted = self._nothing.select("key")
        if suspects is not None:
            wanted = self._shares.join(suspects, "name", "left_semi").select("key")
        if pieces.back.any():
            shares = self._shares.where("kind = 'committed'").select("key", self._position)
            wanted = wanted.union(shares.mapInArrow(partial(steps.in_pieces, pieces), "key string"))
        others = rows_of(self._sketched, COUNT).select("key")
        keys = few(self._keep(wanted.distinct().join(others, "key", "left_anti")))
        if keys is not None:
            self.in_pieces = self._audited(self._shares.join(keys, "key", "left_semi").select(*COLUMNS))
