"""The audit of a history of any size, on Spark.

Each shuffle brings together what one rule needs: the rows of a transaction, the operations on a key, the scans and
first writes of a stretch of keys, what a transaction saw, and the edges of a piece. The driver holds a sample of the
positions and, of each stretch between them, how far edges lead back; both have a fixed size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import Window
from pyspark.sql import functions as sql
from pyspark.storagelevel import StorageLevel

from lowtide.audit.anomalies import MEANINGS
from lowtide.audit.history import Name
from lowtide.audit.levels import level_of
from lowtide.engine import Isolation
from lowtide.errors import UsageError
from lowtide.pipeline.audit import division, steps
from lowtide.pipeline.audit.batches import (
    ANOMALY,
    BACK,
    COLUMNS,
    COUNT,
    FIRST,
    GLIMPSE,
    HEADER,
    LINES,
    LINK,
    SCAN,
    SCHEMA,
    SHARE,
)
from lowtide.pipeline.audit.frames import POSITIONS, few, figures, grouped, is_a, rows_of
from lowtide.pipeline.audit.key_frames import KeyFrames
from lowtide.pipeline.audit.pieces import NOWHERE, Pieces, Places
from lowtide.pipeline.audit.records import Anomaly, KeyShare, brevity, label, unpacker
from lowtide.pipeline.audit.report import AuditReport
from lowtide.pipeline.audit.rows import Format, read_rows
from lowtide.pipeline.audit.transactions import Beliefs, Scale, believed, scale_of
from lowtide.pipeline.audit.whole import WHOLE, audit_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACES = 1 << 16
"""Places at which a history may be cut."""
_KEY_RANGES = 64
"""Stretches of keys in which scans are compared with first writes."""
_DOUBTED = 1_000_000
"""Writes of transactions of unknown outcome that the driver takes."""

Progress = Callable[[str], None]


def audit(
    spark: SparkSession,
    history_path: str | Path,
    level: Isolation | str = Isolation.SERIALIZABLE,
    *,
    format: Format | None = None,
    whole: int = WHOLE,
    progress: Progress | None = None,
) -> AuditReport:
    """Search a history of any size for anomalies, and report which of them ``level`` forbids.

    ``history_path`` is a file or a directory of JSON Lines or Parquet with the rows of docs/audit.md. The verdict is
    that of ``lowtide.audit``. ``spark.sql.shuffle.partitions`` is the number of tasks that share the work. A history of
    up to ``whole`` rows is audited at once, in the driver.
    """
    wanted, tell = level_of(level), progress or (lambda _: None)
    rows = read_rows(spark, history_path, format)
    tell("reading the history")
    first = rows.select("line", "file", "block", "number").take(whole + 1)
    if len(first) <= whole:
        tell(f"auditing {len(first)} rows at once")
        return audit_whole((tuple(row) for row in first), wanted)
    with _kept() as keep:
        return _Audit(spark, keep, tell).run(rows, wanted)


@contextmanager
def _kept() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Keeps frames on disk until the audit is over."""
    frames: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        frames.append(frame.persist(StorageLevel.DISK_ONLY))
        return frames[-1]

    try:
        yield keep
    finally:
        for frame in frames:
            frame.unpersist()


class _Audit:
    def __init__(self, spark: SparkSession, keep: Callable[[DataFrame], DataFrame], progress: Progress) -> None:
        self._spark = spark
        self._keep = keep
        self._tell = progress

    def run(self, rows: DataFrame, level: Isolation) -> AuditReport:
        self._tell("dividing the history")
        divided = self._divided(rows)
        known = figures(
            divided,
            transactions=sql.count_if(is_a(HEADER)),
            committed=sql.count_if(is_a(HEADER) & (sql.col("kind") == "committed")),
            doubted=sql.count_if(is_a(HEADER) & (sql.col("kind") == "unknown")),
            timed=sql.count_if(is_a(HEADER) & sql.col("end").isNotNull()),
            versioned=sql.count_if(is_a(HEADER) & sql.col("other_at").isNotNull()),
            operations=sql.sum(sql.when(is_a(HEADER), sql.col("size"))),
            scans=sql.count_if(is_a(SCAN)),
            shares=sql.count_if(is_a(SHARE)),
        )
        scale = scale_of(known["timed"] > 0, known["versioned"] > 0)
        trusted = self._believed(divided) if known["doubted"] else set()
        committed = known["committed"] + len(trusted)
        self._tell(f"{known['transactions']} transactions: what each key shows")
        counted = self._counted(divided, trusted, scale)
        keys = KeyFrames(self._keep, divided, trusted, scale)
        if known["doubted"] or counted.where("at is null").take(1):
            keys.audit_all()
        else:
            keys.sketch(known["shares"])
        shown = keys.figures()
        placed = self._placed(counted, keys.audited)
        self._tell("what scans did not find")
        firsts = rows_of(placed, FIRST).union(keys.firsts)
        missed = (
            self._missed(rows_of(placed, SCAN), firsts, shown["firsts"]) if known["scans"] and shown["firsts"] else None
        )
        self._tell("where the history can be cut")
        back = self._back(placed, missed).union(keys.back)
        pieces = self._pieces(placed, back, committed)
        self._tell(f"{int(pieces.back.sum())} pieces that edges lead back in")
        suspects = few(self._suspects(keys, missed))
        keys.look_again(pieces, suspects)
        found, sizes = rows_of(keys.audited, ANOMALY), {"pieces": 0, "largest": 0}
        if suspects is not None:
            found = found.union(self._instants(keys, missed, suspects))
        if pieces.back.any():
            checked = self._keep(self._checked(placed.union(keys.in_pieces), back, pieces))
            sizes = figures(
                checked,
                pieces=sql.count_if(is_a(COUNT)),
                largest=sql.max(sql.when(is_a(COUNT), sql.col("size"))),
            )
            found = found.union(rows_of(checked, ANOMALY))
        counts, anomalies = _shortest(found)
        return AuditReport(
            level,
            known["transactions"],
            committed,
            known["operations"],
            anomalies,
            counts=counts,
            unplaced=shown["unplaced"],
            unresolved=shown["unresolved"],
            pieces=sizes["pieces"],
            largest=sizes["largest"],
        )

    def _divided(self, rows: DataFrame) -> DataFrame:
        """Headers, shares and scans. Transactions whose rows stand together are divided where they are; if one of these
        goes on elsewhere, everything is brought together by name."""
        runs = self._keep(rows.drop("tx").mapInArrow(division.divide_runs, SCHEMA))
        found = figures(
            runs,
            whole=sql.count_if(is_a(HEADER)),
            names=sql.countDistinct(sql.when(is_a(HEADER), sql.xxhash64("name"))),
            lines=sql.count_if(is_a(LINES)),
        )
        lines = rows_of(runs, LINES).select("name", "payload")
        if found["whole"] != found["names"] or (
            found["lines"] and lines.join(rows_of(runs, HEADER).select("name"), "name", "left_semi").take(1)
        ):
            return self._keep(grouped(rows, "tx").mapInArrow(division.divide, SCHEMA))
        if not found["lines"]:
            return runs
        return runs.where(~is_a(LINES)).union(
            self._keep(grouped(lines, "name").mapInArrow(division.divide_lines, SCHEMA))
        )

    def _believed(self, divided: DataFrame) -> set[Name]:
        """Which transactions of unknown outcome were committed; the driver takes what they wrote."""
        shares = rows_of(divided, SHARE)
        unpack = unpacker(KeyShare)
        doubted = shares.where("kind = 'unknown'").select("key", "payload").take(_DOUBTED + 1)
        if len(doubted) > _DOUBTED:
            raise UsageError(
                f"the outcomes of transactions with more than {_DOUBTED} writes are unknown: record how each one ended"
            )
        beliefs = Beliefs((row["key"], unpack(row["payload"])) for row in doubted)
        seen = shares.where("kind != 'aborted'").mapInArrow(partial(steps.see_doubted, beliefs), SCHEMA)
        pairs = seen.select("name", "kind", "other").distinct().collect()
        decode = msgspec.json.decode
        return believed((decode(row["name"]), row["kind"] == "committed", decode(row["other"])) for row in pairs)

    def _counted(self, divided: DataFrame, trusted: set[Name], scale: Scale) -> DataFrame:
        """The headers and scans of committed transactions, at their positions."""
        frame = rows_of(divided, HEADER, SCAN)
        committed = frame.where("kind = 'committed'")
        if trusted:
            names = self._spark.createDataFrame([(label(name),) for name in trusted], "name string")
            doubted = frame.where("kind = 'unknown'").join(names, "name", "left_semi").select(*COLUMNS)
            committed = committed.union(doubted)
        at = POSITIONS[scale]
        nothing = sql.lit(None).cast("double")
        return committed.withColumns({"at": sql.col(at), "other_at": nothing, "begin": nothing, "end": nothing})

    def _placed(self, counted: DataFrame, keyed: DataFrame) -> DataFrame:
        """Everything that has a position: those that are not known yet follow from what was seen."""
        frame = counted.union(rows_of(keyed, LINK, FIRST))
        if not counted.where("at is null").take(1):
            return frame
        seen = rows_of(keyed, LINK).where("kind = 'wr' and other_at is null and at is not null")
        last = seen.groupBy(sql.col("other").alias("name")).agg(sql.max("at").alias("at"))
        known = last.mapInArrow(steps.just_after, "name string, at double")
        sources = known.select(sql.col("name"), sql.col("at").alias("source_seen"))
        targets = known.select(sql.col("name").alias("other"), sql.col("at").alias("target_seen"))
        joined = frame.join(sources, "name", "left").join(targets, "other", "left")
        nowhere = sql.lit(NOWHERE)
        return self._keep(
            joined.withColumns(
                {
                    "at": sql.coalesce("at", "source_seen", nowhere),
                    "other_at": sql.when(is_a(LINK), sql.coalesce("other_at", "target_seen", nowhere)),
                }
            ).select(*COLUMNS)
        )

    def _missed(self, scans: DataFrame, firsts: DataFrame, count: int) -> DataFrame:
        """How far back the edges of scans lead to keys that they did not find, and what they missed first."""
        sampled = self._sample(firsts, count, 100 * _KEY_RANGES, "key")
        bounds = sorted(set(sampled))[:: max(1, len(sampled) // _KEY_RANGES)]
        spread = firsts.union(scans).mapInArrow(partial(steps.spread, bounds), SCHEMA)
        # The first writes of a stretch come before the scans, which are compared with all of them.
        by_range = spread.repartition("number").sortWithinPartitions("number", sql.desc("what"))
        return self._keep(by_range.mapInArrow(steps.find_missed, SCHEMA))

    def _sample(self, frame: DataFrame, count: int, wanted: int, column: str) -> list[Any]:
        fraction = min(1.0, wanted / max(1, count))
        chosen = frame if fraction == 1.0 else frame.sample(fraction=fraction, seed=1)
        return [row[0] for row in chosen.select(column).collect()]

    def _back(self, placed: DataFrame, missed: DataFrame | None) -> DataFrame:
        """The edges that lead back that are not links: of sessions, and from scans."""
        turns = Window.partitionBy("key").orderBy("number")
        sessions = rows_of(placed, HEADER).where("key is not null").withColumn("before", sql.lag("at").over(turns))
        back = sessions.where("before >= at").withColumns(
            {"what": sql.lit(BACK).cast("tinyint"), "other_at": sql.col("at"), "at": sql.col("before")}
        )
        back = back.withColumn("payload", sql.lit(None).cast("binary")).select(*COLUMNS)
        return back if missed is None else back.union(rows_of(missed, BACK))

    def _pieces(self, placed: DataFrame, back: DataFrame, count: int) -> Pieces:
        bounds = self._sample(rows_of(placed, HEADER), count, _PLACES, "at")
        places = Places(bounds)
        leading = rows_of(placed, LINK).where("at >= other_at").union(back).select("at", "other_at")
        reached = leading.mapInArrow(partial(steps.reach, places.bounds.tolist()), SCHEMA)
        for number, at in reached.groupBy("number").agg(sql.max("at")).collect():
            places.reach[number] = at
        return places.pieces()

    def _checked(self, placed: DataFrame, back: DataFrame, pieces: Pieces) -> DataFrame:
        tagged = placed.union(back).mapInArrow(partial(steps.tag, pieces), SCHEMA)
        return grouped(tagged, "number").mapInArrow(steps.check_pieces, SCHEMA)

    def _suspects(self, keys: KeyFrames, missed: DataFrame | None) -> DataFrame:
        """Transactions that may have seen two instants: the first end of a span is not after the last begin of one.
        Of writers the sketch leaves spans out that all hold one commit; they are suspect if any other does not."""
        spans = keys.spans
        if missed is not None:
            spans = spans.union(rows_of(missed, GLIMPSE))
        bounds = spans.groupBy("name").agg(
            sql.max("begin").alias("last"), sql.min("end").alias("first"), sql.max("size").alias("apart")
        )
        return self._keep(bounds.where("last >= first or apart = 1").select("name"))

    def _instants(self, keys: KeyFrames, missed: DataFrame | None, suspects: DataFrame) -> DataFrame:
        """What is wrong with the order of what each of the suspects saw."""
        spans = rows_of(keys.audited.union(keys.in_pieces), GLIMPSE)
        if missed is not None:
            spans = spans.union(rows_of(missed, GLIMPSE))
        rows = spans.join(suspects, "name", "left_semi").select(*COLUMNS)
        return grouped(rows, "name").mapInArrow(steps.look_at_instants, SCHEMA)


def _shortest(found: DataFrame) -> tuple[dict[str, int], list[Anomaly]]:
    """How many witnesses there are of each name, and the shortest of them."""
    counts: dict[str, int] = {}
    kept: dict[tuple[str, frozenset[Name], tuple[str, ...]], Anomaly] = {}
    unpack = unpacker(Anomaly)
    for row in found.mapInArrow(steps.shortest, SCHEMA).select("what", "name", "size", "payload").collect():
        if row["what"] == COUNT:
            counts[row["name"]] = counts.get(row["name"], 0) + row["size"]
        else:
            each = unpack(row["payload"])
            kept.setdefault((each.name, frozenset(each.transactions), tuple(each.keys)), each)
    gravity = {name: rank for rank, name in enumerate(MEANINGS)}
    ordered = sorted(kept.values(), key=lambda each: (gravity[each.name], brevity(each)))
    ranks: dict[str, int] = {}
    shown = []
    for each in ordered:
        ranks[each.name] = ranks.get(each.name, 0) + 1
        if ranks[each.name] <= steps.KEPT:
            shown.append(each)
    return counts, shown
