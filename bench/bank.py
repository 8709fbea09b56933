"""A bank with hot accounts: four threads move money between a few accounts. Fewer accounts mean more conflicts.

Lowtide refuses the second of two transactions that wrote the same account, and the thread retries. The figures are
transfers per second and the share of refused attempts. Stores with one writer at a time refuse no transaction; their
writers wait. At the end the total of all accounts must be unchanged.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.comparison import rounds_note
from bench.documents import Pair
from bench.drawing import label, make_figure, save
from bench.peers import LOAD_LENGTH, PEERS, LowtidePeer, Need, Peer, Session, adapter
from bench.report import shortened
from bench.section import Data, Finding, Grid, Plan
from bench.stores import unable, undisturbed
from bench.timing import Portion, Step, Worker, rate, run_together, turns

ACCOUNTS = 1000
MONEY = 1000
HOT = (1000, 100, 10, 2)
THREADS = 4
TRANSFERS = 512
NEEDS: frozenset[Need] = frozenset({"threads"})
LEVELS = {"lowtide SNAPSHOT": "snapshot", "lowtide SERIALIZABLE": "serializable"}
LEVEL_STYLES = {"lowtide SNAPSHOT": {"color": "C0"}, "lowtide SERIALIZABLE": {"color": "navy"}}

PAIRS: list[Pair] = [(b"account-%04d" % number, b"%d" % MONEY) for number in range(ACCOUNTS)]


class MoneyLost(Exception):
    """Raised if a transfer was not atomic, or an update was lost. The figures of the store are not shown."""


def transfer(values: list[bytes | None]) -> list[bytes]:
    """Move one from the first account to the second."""
    source, target = (int(value or b"") for value in values)
    return [b"%d" % (source - 1), b"%d" % (target + 1)]


def worker(hot: int, seed: int, conflicts: list[int]) -> Worker:
    """Transfers between two different accounts of the first ``hot``; each refused attempt is counted."""

    def prepare(session: Session) -> tuple[Step, Sequence[Portion]]:
        source = random.Random(seed)
        chosen = [[PAIRS[at][0] for at in source.sample(range(hot), 2)] for _ in range(TRANSFERS)]

        def step(keys: Portion) -> int:
            conflicts[0] += session.modify_several(keys, transfer)
            return 1

        return step, chosen

    return prepare


def total(peer: Peer) -> int:
    with closing(peer.session()) as session:
        return sum(int(value or b"") for value in session.read_several([key for key, _ in PAIRS]))


def open_bank(name: str, place: Path) -> Peer:
    directory = place / name.replace(" ", "-")
    peer = LowtidePeer(directory, "synced", LEVELS[name]) if name in LEVELS else adapter(name).open(directory, "synced")
    with closing(peer.session()) as session:
        length = LOAD_LENGTH if name in LEVELS else adapter(name).load_length or LOAD_LENGTH
        for start in range(0, ACCOUNTS, length):
            session.put_all(PAIRS[start : start + length])
    peer.settle()
    return peer


class Bank:
    name = "bank"
    title = "A bank with hot accounts"

    def run(self, plan: Plan) -> Data:
        rounds = plan.rounds or (1 if plan.quick else 5)
        seconds = plan.seconds or (0.15 if plan.quick else 0.5)
        few = min(rounds, 1 if plan.quick else 2)
        peers = [
            name for name in PEERS.chosen(plan.peers) if name != "lowtide" and unable(adapter(name), NEEDS) is None
        ]
        names = [*LEVELS, *peers]
        rows: list[dict[str, Any]] = []
        with ExitStack() as stack:
            banks: dict[str, Peer] = {}
            for name in names:
                plan.step(f"opening {name}", 0)
                banks[name] = stack.enter_context(closing(open_bank(name, plan.place)))
            for at, hot in enumerate(HOT):
                for number, order in enumerate(turns(names, PEERS.slow(peers), rounds, few)):
                    plan.step(f"{hot} hot accounts", (at + number / rounds) / len(HOT))
                    for name in order:
                        counts = [[0] for _ in range(THREADS)]
                        workers = [worker(hot, number * THREADS + i, each) for i, each in enumerate(counts)]
                        done, _ = undisturbed(banks[name], partial(run_together, banks[name], workers, seconds))
                        rows.append(
                            {
                                "store": name,
                                "hot": hot,
                                "round": number,
                                "rate": round(rate(done), 1),
                                "transfers": sum(each.operations + each.warm_up for each in done),
                                "refused": sum(each[0] for each in counts),
                            }
                        )
            plan.step("counting the money", 1)
            totals = {name: total(bank) for name, bank in banks.items()}
        wrong = {name: found for name, found in totals.items() if found != ACCOUNTS * MONEY}
        if wrong:
            raise MoneyLost(f"{ACCOUNTS * MONEY} were paid in; found are {wrong}")
        return {
            "rounds": rounds,
            "rounds_of_slow_peers": few,
            "seconds": seconds,
            "threads": THREADS,
            "accounts": ACCOUNTS,
            "money": ACCOUNTS * MONEY,
            "totals": totals,
            "peers": PEERS.described(peers),
            "rows": rows,
        }

    def grids(self, data: Data) -> list[Grid]:
        stores = list(data["totals"])
        rates = [(f"{hot:,}", *(shortened(_rate(data, name, hot)) for name in stores)) for hot in HOT]
        refused = [(f"{hot:,}", *(f"{_refused(data, name, hot):.1%}" for name in stores)) for hot in HOT]
        return [
            Grid(
                f"Transfers per second, {data['threads']} threads, fsynced, medians",
                ("hot accounts", *stores),
                rates,
                f"Two accounts are written in a transaction; {rounds_note(data)} "
                f"Every store has {data['money']:,} in {data['accounts']:,} accounts, before and after.",
            ),
            Grid(
                "Attempts that were refused and made again",
                ("hot accounts", *stores),
                refused,
                "Zero where one writer at a time is let in, or where the adapter holds a lock (rocksdict): there a "
                "thread waits instead.",
            ),
        ]

    def findings(self, data: Data) -> list[Finding]:
        kept = all(found == data["money"] for found in data["totals"].values())
        return [Finding("the money in all accounts is what it was", "yes" if kept else "no", kept)]

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figure, (left, right) = make_figure(columns=2)
        for name in data["totals"]:
            style: dict[str, Any] = {"marker": "o", "markersize": 3, "label": name}
            style |= LEVEL_STYLES[name] if name in LEVELS else {"linestyle": "--", "color": PEERS.colour(name)}
            left.plot(HOT, [_rate(data, name, hot) for hot in HOT], **style)
            if any(_refused(data, name, hot) for hot in HOT):
                right.plot(HOT, [_refused(data, name, hot) * 100 for hot in HOT], **style)
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xticks(HOT, [f"{hot:,}" for hot in HOT])
            axes.minorticks_off()
            axes.invert_xaxis()
            axes.set_ylim(bottom=0)
        lines, names = left.get_legend_handles_labels()
        figure.legend(lines, names, frameon=False, fontsize="x-small", loc="outside right center")
        label(left, "Transfers per second", "hot accounts")
        label(right, "Attempts that were refused, %", "hot accounts")
        return [("Transfers between hot accounts, four threads, fsynced", save(figure, directory, "bank"))]


def _rows(data: Data, store: str, hot: int) -> list[dict[str, Any]]:
    return [row for row in data["rows"] if row["store"] == store and row["hot"] == hot]


def _rate(data: Data, store: str, hot: int) -> float:
    return median(float(row["rate"]) for row in _rows(data, store, hot))


def _refused(data: Data, store: str, hot: int) -> float:
    rows = _rows(data, store, hot)
    refused = sum(int(row["refused"]) for row in rows)
    return refused / (refused + sum(int(row["transfers"]) for row in rows))


SECTION = Bank()
