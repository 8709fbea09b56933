"""Act 2: one snapshot stays open during the transfers, under both collectors."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import lowtide
from demo.bank import balances, open_accounts
from demo.checks import Check, Settings
from demo.screen import Screen
from demo.tellers import Tellers
from demo.text_plot import text_plot

LOOK_EVERY = 0.05

#: So large that no checkpoint moves versions from memory to disk: this act shows what a collector keeps.
NO_CHECKPOINT = 1 << 30


@dataclass
class Course:
    """What one collector kept while the reader was open."""

    collector: Literal["exact", "watermark"]
    #: (commits since the snapshot, versions kept in memory and in the history)
    kept: list[tuple[float, float]] = field(default_factory=list)
    looks: int = 0
    #: Checks in which the reader saw something different from its first read.
    changed: int = 0
    #: Versions kept after the tellers stopped: with the reader still open, and after it was closed.
    with_reader: int = 0
    without_reader: int = 0
    #: Where a checkpoint put the versions that the reader needs: rows on disk, versions in memory.
    history: int = 0
    in_memory: int = 0
    errors: list[BaseException] = field(default_factory=list)

    @property
    def commits(self) -> int:
        return int(self.kept[-1][0]) if self.kept else 0

    @property
    def peak(self) -> int:
        return int(max((versions for _, versions in self.kept), default=0))


def run(path: Path, settings: Settings, screen: Screen) -> tuple[list[Check], Course, Course]:
    screen.act(
        "Act 2: a long reader",
        "One snapshot stays open during the transfers. The exact collector keeps the newest version of each key and "
        "the version that the reader sees. The usual low-water mark keeps all versions since the reader began.",
    )
    exact, watermark = Course("exact"), Course("watermark")
    # The slower one first, so the other reaches the same number of commits in less time.
    _follow(path / "watermark", watermark, None, settings, screen, (exact, watermark))
    _follow(path / "exact", exact, watermark.commits, settings, screen, (exact, watermark))
    return _judge(exact, watermark, settings), exact, watermark


def _follow(
    path: Path, course: Course, enough: int | None, settings: Settings, screen: Screen, both: tuple[Course, Course]
) -> None:
    """Let the tellers work under an open snapshot, until there are `enough` commits or time is up."""
    with lowtide.open(
        path,
        durability="relaxed",
        collector=course.collector,
        checkpoint_bytes=NO_CHECKPOINT,
        checkpoint_versions=NO_CHECKPOINT,
    ) as store:
        open_accounts(store, settings.accounts, settings.opening_balance)
        with store.snapshot() as reader:
            at_first = balances(reader)
            _look(store, reader, at_first, 0, course)
            with Tellers(store, settings) as tellers, screen.panel(f"collector={course.collector!r}") as show:
                # The second may take longer: both lines of the plot should end at the same number of commits.
                deadline = time.monotonic() + settings.seconds * (1 if enough is None else 2)
                while time.monotonic() < deadline and not tellers.errors:
                    stats = _look(store, reader, at_first, tellers.commits, course)
                    show(*_view(stats, course, both))
                    if enough is not None and course.commits >= enough:
                        break
                    time.sleep(LOOK_EVERY)
            course.errors = tellers.errors
            store.collect_garbage()
            _look(store, reader, at_first, tellers.commits, course)
            course.with_reader = int(course.kept[-1][1])
            if course.collector == "exact":
                store.checkpoint()
                after = store.stats()
                course.history, course.in_memory = after.history, after.versions
                course.changed += balances(reader) != at_first
        store.collect_garbage()
        closed = store.stats()
        course.without_reader = closed.versions + closed.history


def _look(
    store: lowtide.Store, reader: lowtide.Snapshot, at_first: dict[bytes, int], commits: int, course: Course
) -> lowtide.Stats:
    stats = store.stats()
    course.kept.append((commits, stats.versions + stats.history))
    course.looks += 1
    course.changed += balances(reader) != at_first
    return stats


def _view(stats: lowtide.Stats, course: Course, both: tuple[Course, Course]) -> tuple[dict[str, str], str]:
    facts = {
        "commits under the reader": f"{course.commits:,}",
        "the reader sees": "what it saw at first" if not course.changed else "SOMETHING ELSE",
        "versions in memory": f"{stats.versions:,}",
        "history rows": f"{stats.history:,}",
        "dropped so far": f"{stats.collected:,}",
    }
    return facts, "versions kept   █ exact   ░ watermark\n" + text_plot(both[0].kept, both[1].kept, height=8)


def _judge(exact: Course, watermark: Course, settings: Settings) -> list[Check]:
    # Each teller has its own key in addition to the accounts.
    keys = settings.accounts + settings.threads
    # While tellers work, each of their snapshots is a reader too, and so is the transaction that just ended: a chain
    # is pruned when it is written next.
    bound = keys * (2 + 2 * settings.threads)
    errors = [*exact.errors, *watermark.errors]
    return [
        Check(
            "What an open snapshot sees does not change",
            f"{exact.looks + watermark.looks:,} checks during {exact.commits + watermark.commits:,} commits, "
            f"{exact.changed + watermark.changed} differed" + (f", error {errors[0]!r}" if errors else ""),
            exact.changed + watermark.changed == 0 and exact.commits > 0 and watermark.commits > 0 and not errors,
        ),
        Check(
            "An old reader costs one version per key, not one per write",
            f"{keys} keys: {exact.with_reader:,} versions after {exact.commits:,} commits, at most {exact.peak:,} "
            f"on the way (low-water mark: {watermark.with_reader:,} after {watermark.commits:,})",
            exact.with_reader <= 2 * keys and exact.peak <= bound,
        ),
        Check(
            "It costs disk, not memory: a checkpoint moves what it sees to the history",
            f"{exact.history} history rows and {exact.in_memory} versions in memory after the checkpoint",
            exact.history <= keys and exact.in_memory == 0,
        ),
        Check(
            "When the reader is closed, nothing is kept for it",
            f"{exact.without_reader} (exact) and {watermark.without_reader} (watermark) versions left for {keys} keys",
            exact.without_reader <= keys and watermark.without_reader <= keys,
        ),
    ]
