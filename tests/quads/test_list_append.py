"""Lists in statements that threads append to, at each level and across kills, judged by the audit.

A list is one statement, whose object is a text of all elements. An append reads the statement, removes it and adds a
longer one. Below SNAPSHOT two concurrent appends leave two such statements. The longest text counts, so one append is
lost, which those levels allow.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from itertools import count
from typing import Any

import pytest
from rdflib import RDF, Literal, URIRef

import lowtide
from lowtide import Isolation, Transaction
from lowtide.audit import History, Report, audit
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together
from tests.isolation.test_convicted import Break, no_first_committer_wins, no_validation_of_reads
from tests.support.patience import PATIENCE

LISTS = [URIRef(f"urn:list/{n}") for n in range(3)]
THREADS, ROUNDS = 3, 12


class RecordedLists:
    """Transactions over lists of statements, and the rows of their history. Each thread appends rows of its own
    transactions; a list's append is atomic."""

    def __init__(self, store: lowtide.Store, level: Isolation) -> None:
        self._store, self._level = store, level
        self._numbers = count(1)
        self.rows: list[dict[str, Any]] = []

    def begin(self) -> tuple[Transaction, list[dict[str, Any]]]:
        rows: list[dict[str, Any]] = [{"tx": next(self._numbers), "op": "begin"}]
        return self._store.begin(self._level), rows

    def read(self, tx: Transaction, rows: list[dict[str, Any]], which: URIRef) -> list[int]:
        texts = [str(each[2]) for each in tx.quads("lists").match((which, RDF.value, None))]
        longest = max(texts, key=lambda text: (len(text.split()), text), default="")
        found = [int(each) for each in longest.split()]
        rows.append({"tx": rows[0]["tx"], "op": "read", "key": str(which), "value": found})
        return found

    def append(self, tx: Transaction, rows: list[dict[str, Any]], which: URIRef, value: int) -> None:
        found = self.read(tx, rows, which)
        quads = tx.quads("lists")
        quads.remove((which, RDF.value, None))
        quads.add((which, RDF.value, Literal(" ".join(map(str, [*found, value])))))
        rows.append({"tx": rows[0]["tx"], "op": "append", "key": str(which), "value": value})

    def end(self, tx: Transaction, rows: list[dict[str, Any]]) -> bool:
        try:
            ts = tx.commit()
        except lowtide.ConflictError:
            rows.append({"tx": rows[0]["tx"], "op": "abort"})
        else:
            rows.append({"tx": rows[0]["tx"], "op": "commit", "version": ts})
        self.rows.extend([{**row, "index": index} for index, row in enumerate(rows)])
        return bool(rows[-1]["op"] == "commit")

    def report(self) -> Report:
        return audit(History.of(self.rows), self._level)


def crowd(store: lowtide.Store, level: Isolation) -> tuple[Report, int]:
    """Threads that read and append, beside checkpoints and collections of versions and terms. In each round all have
    read before any commits, so that they are in each other's way."""
    store.quads("lists").add_many([(each, RDF.value, Literal("")) for each in LISTS])
    lists = RecordedLists(store, level)
    together = threading.Barrier(THREADS, timeout=PATIENCE)
    values, accepted = count(1), []

    def work(number: int) -> None:
        chance = random.Random(number)
        try:
            for turn in range(ROUNDS):
                tx, rows = lists.begin()
                together.wait()
                lists.read(tx, rows, chance.choice(LISTS))
                together.wait()
                lists.append(tx, rows, chance.choice(LISTS[:2]), next(values))
                accepted.append(lists.end(tx, rows))
                if turn % 4 == number:
                    store.checkpoint()
                    store.collect_garbage()
        except BaseException:
            together.abort()
            raise

    run_together(*(lambda number=number: work(number) for number in range(THREADS)))
    return lists.report(), sum(accepted)


@pytest.mark.parametrize("level", list(Isolation)[1:])
def test_appends_of_threads_keep_the_level(open_store: OpenStore, level: Isolation) -> None:
    store = open_store()
    report, accepted = crowd(store, level)
    assert report.ok, str(report)
    assert accepted >= ROUNDS
    assert store.verify().problems == []
    if level in (Isolation.SNAPSHOT, Isolation.SERIALIZABLE):  # no append was lost: what was accepted is there
        texts = [str(each[2]) for each in store.quads("lists").match((None, RDF.value, None))]
        assert sum(len(text.split()) for text in texts) == accepted


@pytest.mark.parametrize(
    ("broken", "level"),
    [(no_first_committer_wins, Isolation.SNAPSHOT), (no_validation_of_reads, Isolation.SERIALIZABLE)],
)
def test_a_broken_engine_is_convicted(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, broken: Break, level: Isolation
) -> None:
    store = open_store()
    broken(monkeypatch)
    report, _ = crowd(store, level)
    assert not report.ok


@pytest.mark.parametrize("level", list(Isolation)[1:])
def test_a_recorded_store_is_acquitted_over_statements(open_store: OpenStore, tmp_path: Any, level: Isolation) -> None:
    """By what the engine itself has recorded of reads by bound patterns."""
    store = open_store(record=tmp_path / "history")
    crowd(store, level)
    store.close()
    report = audit(History.load(*sorted((tmp_path / "history").glob("*.jsonl"))), level)
    assert report.ok, str(report)
    assert report.committed >= ROUNDS


APPENDING = """
import sys
import lowtide
from rdflib import RDF, Literal, URIRef
store = lowtide.open(sys.argv[1])
quads, number = store.quads("lists"), int(sys.argv[2])
while True:
    which = URIRef(f"urn:list/{number % 3}")
    with store.transaction() as tx:
        quads = tx.quads("lists")
        texts = [str(each[2]) for each in quads.match((which, RDF.value, None))]
        quads.remove((which, RDF.value, None))
        quads.add((which, RDF.value, Literal(" ".join([*texts, str(number)]))))
    print(number, flush=True)
    number += 1
    if number % 40 == 0:
        store.checkpoint()
"""


def test_acknowledged_appends_survive_kills(open_store: OpenStore) -> None:
    store = open_store()
    path = store.path
    store.close()
    done: list[int] = []
    for life in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", APPENDING, str(path), str(1000 * life)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for line in child.stdout:
            done.append(int(line))
            if len(done) >= 60 * (life + 1):
                break
        child.send_signal(signal.SIGKILL)
        done += [int(line) for line in child.stdout.read().split("\n")[:-1]]
        child.wait()
        child.stdout.close()
    with lowtide.open(path) as again:
        held = {
            str(s): [int(each) for each in str(o).split()]
            for s, _, o, _ in again.quads("lists").match((None, RDF.value, None))
        }
        assert again.verify().problems == []
    assert len(held) == 3
    for which, found in held.items():
        assert found == sorted(set(found))
        assert set(found) >= {number for number in done if f"urn:list/{number % 3}" == which}
    lost = {number for found in held.values() for number in found} - set(done)
    assert len(lost) <= 3  # at most one commit of each life was not told before the kill
