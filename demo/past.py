"""Acts 4 to 6, on Spark: the shop's history is archived, a bad migration is undone, and old versions are vacuumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import lowtide
import lowtide.pipeline
from demo.checks import Check, Settings
from demo.screen import Screen
from demo.shop import FEED_BYTES, ITEMS, PRICES, STOCK, Buyers, counts, prices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Instants during the shop's work that are read from the archive afterwards.
INSTANTS = 3
BY_HAND = 7
#: Seconds that a buyer waits between two purchases while Spark is running.
THINKING = 0.01


@dataclass(frozen=True)
class Places:
    """The directories of the shop: its store, its archive, its recorded history, and its restored copy."""

    store: Path
    archive: Path
    history: Path
    restored: Path


@dataclass
class Past:
    """The observed content of the shop, by commit, and the last commit before the migration."""

    stock: dict[int, dict[bytes, int]] = field(default_factory=dict)
    good: int = 0
    prices: dict[int, int] = field(default_factory=dict)

    def remember(self, store: lowtide.Store) -> None:
        with store.snapshot() as snapshot:
            self.stock[snapshot.ts] = counts(snapshot, STOCK)


def run(spark: SparkSession, shop: Places, settings: Settings, screen: Screen) -> tuple[list[Check], Past]:
    past = Past()
    with lowtide.open(shop.store, durability="full", feed_bytes=FEED_BYTES, record=shop.history) as store:
        checks = _archive(spark, store, shop.archive, settings, screen, past=past)
        checks += _migrate(spark, store, shop, screen, past)
    return [*checks, *_vacuum(spark, shop.archive, screen, past)], past


def _archive(
    spark: SparkSession, store: lowtide.Store, archive: Path, settings: Settings, screen: Screen, *, past: Past
) -> list[Check]:
    screen.act(
        "Act 4: the whole history",
        "The shop stays open. A pipeline on Spark copies every version of every document and key to an archive of "
        "Delta tables, run by run, each exactly once. Any past instant can be read.",
    )
    runs = []
    with Buyers(store, settings, first=100, pause=THINKING) as buyers:
        for _ in range(INSTANTS):
            past.remember(store)
            runs.append(lowtide.pipeline.archive(spark, store.path, archive))
            screen.note(f"  run {len(runs)}: {runs[-1].rows:,} versions, up to commit {runs[-1].commit:,}")
    runs.append(lowtide.pipeline.archive(spark, store.path, archive))
    again = lowtide.pipeline.archive(spark, store.path, archive)
    state = lowtide.pipeline.status(archive, store.path)
    equal = sum(_stock_at(spark, archive, commit) == seen for commit, seen in past.stock.items())
    gaps = [gap for each in runs for gap in each.gaps]
    return [
        Check(
            "The archive has every version once, however often it is run, while the shop is open",
            f"{len(runs)} runs, {state.rows:,} versions in {state.files} files, {again.rows} by a repeated run, "
            f"{state.behind} commits behind, {len(gaps)} gaps",
            state.rows == sum(each.rows for each in runs) > buyers.purchases
            and not (again.rows or gaps or state.behind or buyers.errors),
        ),
        Check(
            "As of a commit, the archive shows what the store itself saw",
            f"{equal} of {len(past.stock)} instants equal, row for row",
            equal == len(past.stock) == INSTANTS,
        ),
    ]


def _stock_at(spark: SparkSession, archive: Path, commit: int) -> dict[bytes, int]:
    rows = lowtide.pipeline.as_of(spark, archive, commit, keyspace=STOCK).collect()
    return {bytes(row["_id"]): int(row["_raw"]) for row in rows}


def _prices_at(spark: SparkSession, archive: Path, commit: int) -> dict[int, int]:
    rows = lowtide.pipeline.as_of(spark, archive, commit, PRICES).collect()
    return {row["_id"]: row["cents"] for row in rows}


def _migrate(spark: SparkSession, store: lowtide.Store, shop: Places, screen: Screen, past: Past) -> list[Check]:
    archive = shop.archive
    screen.act(
        "Act 5: a bad migration",
        "A migration turns all prices into whole euros, but they are still read as cents. It is noticed only after "
        "one price was corrected by hand. The archive shows what the migration did, and undoes exactly that.",
    )
    past.good = store.stats().last_commit
    with store.snapshot() as snapshot:
        past.prices = prices(snapshot)
    with store.transaction() as tx:
        for number, cents in past.prices.items():
            tx[PRICES].update_one({"_id": number}, {"$set": {"cents": cents // 100}})
    bad = store.stats().last_commit
    store[PRICES].update_one({"_id": BY_HAND}, {"$set": {"cents": 999}})
    lowtide.pipeline.archive(spark, store.path, archive)
    broken = lowtide.pipeline.diff(spark, archive, past.good, bad, PRICES).count()
    before = _prices_at(spark, archive, past.good)
    screen.note(f"  item 0 cost {before[0]} cents at commit {past.good:,}, and {before[0] // 100} after the migration")
    done = lowtide.pipeline.put_back(spark, archive, store, PRICES, past.good, bad)
    screen.note(f"  put back {done.put_back} prices in commit {done.commit}; changed since: {len(done.conflicts)}")
    with store.snapshot() as snapshot:
        now = prices(snapshot)
    restored = lowtide.pipeline.restore(spark, archive, shop.restored, past.good, [PRICES])
    with lowtide.open(restored.path) as copy, copy.snapshot() as snapshot:
        rebuilt = prices(snapshot)
    return [
        Check(
            "Time travel: the archive shows the earlier prices, and what the migration changed",
            f"{len(before)} prices as of commit {past.good:,}, {broken} changed by the migration",
            before == past.prices and broken == ITEMS,
        ),
        Check(
            "Only what the migration broke is put back; later changes are shown and left alone",
            f"{done.put_back} of {ITEMS} put back, {len(done.conflicts)} conflict",
            now == {**past.prices, BY_HAND: 999} and [each.id for each in done.conflicts] == [BY_HAND],
        ),
        Check(
            "A collection is rebuilt in a new store, as it was at that commit",
            f"{restored.rows} documents, equal to the shop's at commit {restored.commit:,}",
            rebuilt == past.prices,
        ),
    ]


def _vacuum(spark: SparkSession, archive: Path, screen: Screen, past: Past) -> list[Check]:
    screen.act(
        "Act 6: a vacuum",
        "A vacuum drops every version that no retained instant sees, by the rule of the store's own collector. Here "
        "the present is kept, and the state before the migration.",
    )
    planned = lowtide.pipeline.vacuum(spark, archive, [past.good], dry_run=True)
    done = lowtide.pipeline.vacuum(spark, archive, [past.good])
    screen.note(
        f"  dropped {done.dropped:,} of {done.kept + done.dropped:,} versions, about {done.bytes / 1024:,.0f} KiB"
    )
    kept = _prices_at(spark, archive, past.good)
    refused = ""
    gone = min(past.stock)
    try:
        _stock_at(spark, archive, gone)
    except lowtide.Error as error:
        refused = str(error).replace(str(archive.absolute()), archive.name)
    return [
        Check(
            "A vacuum drops what no retained instant sees, and nothing else; a dry run predicts it",
            f"{done.dropped:,} versions dropped, {done.kept:,} kept, {planned.dropped:,} were announced; the kept "
            f"instant is {'the same' if kept == past.prices else 'NOT the same'}",
            done.dropped == planned.dropped > 0 and kept == past.prices,
        ),
        Check(
            "Reading an instant that is gone raises an error, never a wrong answer",
            refused or f"commit {gone} was ANSWERED",
            bool(refused),
        ),
    ]
