"""Act 3: a process is killed in the middle of its work, and the store is opened again. Three times."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import lowtide
from demo.bank import account, balances, open_accounts
from demo.checks import Check, Settings
from demo.crash_child import RECEIPTS
from demo.screen import Screen, Show

CRASHES = 3

#: How long a child may take until its first commit, in seconds.
START_WITHIN = 30.0


@dataclass
class Killed:
    """The commits that a child had reported when it was killed: receipt -> timestamp."""

    acknowledged: dict[bytes, int] = field(default_factory=dict)
    complaint: str = ""


@dataclass
class Found:
    """What the reopened store contained."""

    lost: int
    #: Committed, but the child was killed before it could report them. That is allowed.
    unreported: int
    total: int
    adds_up: bool
    seconds: float


def run(path: Path, settings: Settings, screen: Screen) -> list[Check]:
    screen.act(
        "Act 3: a crash and a recovery",
        "Another process transfers money and reports each acknowledged commit, until SIGKILL ends it "
        "at a random moment. Then the store is opened again and compared with the reports; "
        f"{CRASHES} times, on the same store.",
    )
    with lowtide.open(path, durability="full") as store:
        open_accounts(store, settings.accounts, settings.opening_balance)
    chance = random.Random(settings.seed)
    killed: list[Killed] = []
    found: list[Found] = []
    for crash in range(CRASHES):
        with screen.panel(f"crash {crash + 1} of {CRASHES}") as show:
            killed.append(_work_and_kill(path, crash, settings, chance.uniform(0.2, 1.0) * settings.kill_within, show))
        if killed[-1].complaint:
            screen.note(killed[-1].complaint, "red")
        found.append(_reopen(path, killed, settings))
        screen.note(
            f"  opened again in {found[-1].seconds * 1000:,.0f} ms: {found[-1].lost} of {_count(killed):,} "
            f"acknowledged commits lost, {found[-1].unreported} found that were not yet reported; "
            f"sum {found[-1].total:,}"
        )
    return _judge(killed, found, settings)


def _work_and_kill(path: Path, crash: int, settings: Settings, lifetime: float, show: Show) -> Killed:
    result = Killed()
    arguments = [str(path), str(crash), str(settings.threads), str(settings.accounts)]
    child = subprocess.Popen(
        [sys.executable, "-m", "demo.crash_child", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # The child finds the packages where this process found them.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)},
    )
    assert child.stdout is not None
    assert child.stderr is not None
    reports = child.stdout

    def collect() -> None:
        for line in reports:
            commit, receipt = line.split()
            result.acknowledged[receipt] = int(commit)

    collector = threading.Thread(target=collect, daemon=True)
    collector.start()
    try:
        deadline = time.monotonic() + START_WITHIN
        while not result.acknowledged and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        end = time.monotonic() + lifetime
        while time.monotonic() < end and child.poll() is None:
            show({"process": f"{child.pid}, at work", "commits acknowledged": f"{len(result.acknowledged):,}"}, "")
            time.sleep(min(0.05, max(0.0, end - time.monotonic())))
        if child.poll() is not None:
            complaint = child.stderr.read().decode(errors="replace")
            result.complaint = f"the child exited on its own, with {child.returncode}:\n{complaint}"
    finally:
        child.kill()
        child.wait()
        # Commits that were in the pipe when the child died count as acknowledged too.
        collector.join()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    show({"process": f"{child.pid}, killed", "commits acknowledged": f"{len(result.acknowledged):,}"}, "")
    return result


def _reopen(path: Path, killed: list[Killed], settings: Settings) -> Found:
    start = time.monotonic()
    with lowtide.open(path) as store:
        seconds = time.monotonic() - start
        last_commit = store.stats().last_commit
        with store.snapshot() as snapshot:
            receipts = dict(snapshot.keyspace(RECEIPTS).scan())
            now = balances(snapshot)
    lost = sum(
        receipt not in receipts or commit > last_commit
        for child in killed
        for receipt, commit in child.acknowledged.items()
    )
    return Found(
        lost=lost,
        unreported=len(receipts) - (_count(killed) - lost),
        total=sum(now.values()),
        adds_up=now == _replayed(receipts, settings),
        seconds=seconds,
    )


def _replayed(receipts: dict[bytes, bytes], settings: Settings) -> dict[bytes, int]:
    """The balances that follow from the receipts. They differ from the stored ones if a commit is only partly there."""
    result = Counter({account(number): settings.opening_balance for number in range(settings.accounts)})
    for receipt in receipts.values():
        source, target, moved = receipt.split()
        result[source] -= int(moved)
        result[target] += int(moved)
    return dict(result)


def _count(killed: list[Killed]) -> int:
    return sum(len(child.acknowledged) for child in killed)


def _judge(killed: list[Killed], found: list[Found], settings: Settings) -> list[Check]:
    totals = sorted({each.total for each in found})
    worked = all(child.acknowledged and not child.complaint for child in killed)
    # Each killed thread had at most one commit in flight.
    most_unreported = CRASHES * settings.threads
    return [
        Check(
            "Acknowledged is durable: no commit is lost when the process is killed",
            f"{len(found)} kills, {_count(killed):,} commits acknowledged, {found[-1].lost} lost, "
            f"{found[-1].unreported} found that were not yet reported",
            worked and all(each.lost == 0 for each in found) and 0 <= found[-1].unreported <= most_unreported,
        ),
        Check(
            "A commit is there completely or not at all",
            f"balances {'equal' if all(each.adds_up for each in found) else 'DIFFER FROM'} the receipts, "
            f"sum {', '.join(f'{total:,}' for total in totals)}; "
            f"reopened in at most {max(each.seconds for each in found) * 1000:,.0f} ms",
            all(each.adds_up for each in found) and totals == [settings.money],
        ),
    ]
