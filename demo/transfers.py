"""Act 1: threads transfer money at the same time, and the sum never changes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import lowtide
from demo.bank import balances, open_accounts
from demo.checks import Check, Settings
from demo.screen import Screen, Show
from demo.tellers import Tellers, recorded
from demo.text_plot import sparkline

#: Between two looks at the store, in seconds.
LOOK_EVERY = 0.1


@dataclass
class Seen:
    """What the onlooker has seen so far."""

    sums: set[int] = field(default_factory=set)
    looks: int = 0
    pace: list[float] = field(default_factory=list)


def run(path: Path, settings: Settings, screen: Screen) -> list[Check]:
    screen.act(
        "Act 1: concurrent transfers",
        f"{settings.threads} threads move money between {settings.accounts} accounts; a commit is on disk when it "
        "returns, and who loses a conflict starts again on a new snapshot. An onlooker sums up all accounts, "
        "again and again.",
    )
    with lowtide.open(path, durability="full") as store:
        open_accounts(store, settings.accounts, settings.opening_balance)
        with Tellers(store, settings) as tellers, screen.panel("transfers") as show:
            seen = _look_on(store, tellers, settings, show)
    # Opened again, so that what is compared comes from the disk and not from memory.
    with lowtide.open(path) as store, store.snapshot() as snapshot:
        kept = recorded(snapshot, settings.threads)
        seen.sums.add(sum(balances(snapshot).values()))
    return [
        Check(
            "Every snapshot is one instant: the sum of all accounts never changes",
            f"{seen.looks:,} snapshots, sum {_listed(seen.sums)}",
            seen.sums == {settings.money},
        ),
        Check(
            "Conflicts are found and retried, no transfer fails",
            f"{tellers.commits:,} commits ({tellers.commits / settings.seconds:,.0f} per second), "
            f"{tellers.retried:,} conflicts retried, {tellers.gave_up} given up, {_errors(tellers)}",
            tellers.commits > 0 and tellers.gave_up == 0 and not tellers.errors,
        ),
        Check(
            "The store holds exactly what was acknowledged",
            f"{sum(kept):,} transfers found after reopening, {tellers.commits:,} acknowledged",
            kept == tellers.acknowledged,
        ),
    ]


def _look_on(store: lowtide.Store, tellers: Tellers, settings: Settings, show: Show) -> Seen:
    seen = Seen()
    start = last_time = time.monotonic()
    last_commits = 0
    while (now := time.monotonic()) < start + settings.seconds and not tellers.errors:
        with store.snapshot() as snapshot:
            total = sum(balances(snapshot).values())
        seen.sums.add(total)
        seen.looks += 1
        commits, stats = tellers.commits, store.stats()
        # Not the first look, which comes at once: a rate over no time means nothing.
        if now - last_time > LOOK_EVERY / 2:
            seen.pace.append((commits - last_commits) / (now - last_time))
        last_time, last_commits = now, commits
        facts = {
            "commits": f"{commits:,} ({sum(seen.pace[-5:]) / max(1, len(seen.pace[-5:])):,.0f} per second)",
            "conflicts retried": f"{tellers.retried:,}",
            "versions in memory": f"{stats.versions:,}",
            "log": f"{stats.log_bytes / 1024:,.0f} KiB",
            "sum of all accounts": f"{total:,} ({'as it must be' if total == settings.money else 'WRONG'})",
        }
        show(facts, "commits per second  " + sparkline(seen.pace))
        time.sleep(LOOK_EVERY)
    return seen


def _listed(sums: set[int]) -> str:
    return ", ".join(f"{value:,}" for value in sorted(sums)[:3]) + (" and others" if len(sums) > 3 else "")


def _errors(tellers: Tellers) -> str:
    return "no errors" if not tellers.errors else f"error {tellers.errors[0]!r}"
