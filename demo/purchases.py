"""Act 1: concurrent buyers, and a long report that sees one instant from beginning to end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import lowtide
from demo.checks import Check, Settings
from demo.screen import Screen, Show
from demo.shop import FEED_BYTES, ORDERS, SOLD, STOCK, Buyers, adds_up, counts, furnish
from demo.text_plot import sparkline

#: Seconds between two checks of the store.
LOOK_EVERY = 0.1


@dataclass
class Seen:
    """What the long report and the observer have seen so far."""

    looks: int = 0
    #: Checks in which an item was neither in stock nor sold, or both.
    wrong: int = 0
    #: Checks in which the long report saw something different from its first read.
    changed: int = 0
    pace: list[float] = field(default_factory=list)


def run(path: Path, history: Path, settings: Settings, screen: Screen) -> list[Check]:
    screen.act(
        "Act 1: a shop, its buyers, and a long report",
        f"{settings.threads} buyers at the same time; each purchase is a serializable transaction, on disk when it "
        "returns. A report keeps one snapshot open all the time, and an observer checks the stock repeatedly. The "
        "store records what each transaction saw, for a later audit.",
    )
    with lowtide.open(path, durability="full", feed_bytes=FEED_BYTES, record=history) as store:
        furnish(store)
        with store.snapshot() as report:
            at_first = counts(report, STOCK)
            with Buyers(store, settings) as buyers, screen.panel("purchases") as show:
                seen = _look_on(store, report, at_first, buyers, settings, show)
    # Reopened, so the compared data comes from disk and not from memory.
    with lowtide.open(path, feed_bytes=FEED_BYTES) as store, store.snapshot() as snapshot:
        kept, sold = snapshot[ORDERS].count_documents({}), sum(counts(snapshot, SOLD).values())
        ordered = sum(order["count"] for order in snapshot[ORDERS].find())
        seen.wrong += not adds_up(snapshot)
    failed = f", error {buyers.errors[0]!r}" if buyers.errors else ""
    return [
        Check(
            "Every snapshot is one instant: stock and sales always add up",
            f"{seen.looks:,} snapshots, {seen.wrong} wrong",
            seen.looks > 0 and seen.wrong == 0,
        ),
        Check(
            "A long report always sees the same data, whatever is bought meanwhile",
            f"{seen.looks:,} checks during {buyers.purchases:,} purchases, {seen.changed} differed",
            seen.changed == 0 and buyers.purchases > 0,
        ),
        Check(
            "Conflicts are detected and retried, and the store holds exactly what was acknowledged",
            f"{buyers.purchases:,} purchases ({buyers.purchases / settings.seconds:,.0f} per second), "
            f"{buyers.retried:,} retried; {kept:,} orders of {ordered:,} pieces found, {sold:,} sold{failed}",
            kept == buyers.purchases and ordered == sold and not buyers.errors,
        ),
    ]


def _look_on(
    store: lowtide.Store,
    report: lowtide.Snapshot,
    at_first: dict[bytes, int],
    buyers: Buyers,
    settings: Settings,
    show: Show,
) -> Seen:
    seen = Seen()
    start = last_time = time.monotonic()
    last = 0
    while (now := time.monotonic()) < start + settings.seconds and not buyers.errors:
        with store.snapshot() as snapshot:
            seen.wrong += not adds_up(snapshot)
        seen.changed += counts(report, STOCK) != at_first
        seen.looks += 1
        purchases, stats = buyers.purchases, store.stats()
        # Not at the first check, which comes at once: a rate over no time is meaningless.
        if now - last_time > LOOK_EVERY / 2:
            seen.pace.append((purchases - last) / (now - last_time))
        last_time, last = now, purchases
        facts = {
            "purchases": f"{purchases:,} ({sum(seen.pace[-5:]) / max(1, len(seen.pace[-5:])):,.0f} per second)",
            "conflicts retried": f"{buyers.retried:,}",
            "versions in memory": f"{stats.versions:,}",
            "the long report sees": "what it saw at first" if not seen.changed else "SOMETHING ELSE",
            "stock and sold": "add up" if not seen.wrong else "WRONG",
        }
        show(facts, "purchases per second  " + sparkline(seen.pace))
        time.sleep(LOOK_EVERY)
    return seen
