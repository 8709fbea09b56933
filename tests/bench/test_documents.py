"""The comparison of document stores: what it measures on a small scale, what it refuses, and what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.collections import STORES, Adapter, Durability, sqlite
from bench.collections.compare import SECTION, LostWrite, able
from bench.collections.people import Document
from bench.collections.sqlite import SqliteCollection
from bench.collections.targets import FLOORS, PROMISES, REASONS
from bench.collections.workloads import WORKLOADS, WrongAnswer, repeat
from bench.figures import Figure, Figures
from bench.section import Data, Plan
from tests.bench.support import check_shown, check_step, through_json

NAMES = {workload.name for workload in WORKLOADS}
BOTH = frozenset({"lowtide", "sqlite3"})


def small(place: Path, *only: str, peers: frozenset[str] = BOTH) -> Plan:
    return Plan(place, True, check_step, frozenset(only), peers, rounds=1, seconds=0.01, documents=300)


def measured(place: Path, *only: str, peers: frozenset[str] = BOTH) -> Data:
    return through_json(SECTION.run(small(place, *only, peers=peers)))


def install(monkeypatch: pytest.MonkeyPatch, store: type[SqliteCollection]) -> None:
    settings: dict[Durability, str] = {"synced": "no", "unsynced": "no"}
    monkeypatch.setattr(sqlite, "ADAPTER", Adapter(store, settings))


def figures(**rates: float) -> Figures:
    """One round of one workload: ``update__sqlite3=2.0``; dashes of names as single underscores."""
    found = Figures()
    for key, rate in rates.items():
        workload, peer = key.split("__")
        found.add(Figure(workload.replace("_", "-"), peer, 0, rate))
    return found


# -- measuring --------------------------------------------------------------------------------------------------------


def test_every_store_is_measured_in_every_workload(tmp_path: Path) -> None:
    data = measured(tmp_path)
    assert {(row[0], row[1]) for row in data["figures"]["rows"]} == {(work, peer) for work in NAMES for peer in BOTH}
    assert all(row[3] > 0 for row in data["figures"]["rows"])
    rates, ratios, *_ = check_shown(SECTION, data, tmp_path)
    assert len(rates.rows) == len(ratios.rows) == len(WORKLOADS)
    assert not any("–" in row for row in rates.rows)
    assert len(SECTION.findings(data)) == len(WORKLOADS)


def test_a_store_that_loses_an_update_ends_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(SqliteCollection):
        calls = 0

        def increment(self, id: str) -> None:
            self.calls += 1
            if self.calls % 3:
                super().increment(id)

    install(monkeypatch, Forgetful)
    with pytest.raises(LostWrite, match=r"sqlite3, update-unsynced: \d+ updates were made"):
        measured(tmp_path, "update-unsynced", peers=frozenset({"sqlite3"}))


def test_a_store_that_loses_an_insert_ends_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(SqliteCollection):
        def insert_one(self, document: Document) -> None:
            pass

    install(monkeypatch, Forgetful)
    with pytest.raises(LostWrite, match="sqlite3, insert-unsynced: "):
        measured(tmp_path, "insert-unsynced", peers=frozenset({"sqlite3"}))


def test_a_store_that_answers_wrongly_ends_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mistaken(SqliteCollection):
        def find_by_email(self, email: str) -> Document | None:
            return {"email": "nobody"}

        def range_by_rank(self, start: int, stop: int) -> list[Document]:
            return super().range_by_rank(start, stop - 1)

    install(monkeypatch, Mistaken)
    with pytest.raises(WrongAnswer, match="was asked for"):
        measured(tmp_path / "1", "find-index", peers=frozenset({"sqlite3"}))
    with pytest.raises(WrongAnswer, match="a range of 100 documents gave 99"):
        measured(tmp_path / "2", "find-range", peers=frozenset({"sqlite3"}))


def test_what_a_store_cannot_do_is_a_dash_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = Adapter(
        SqliteCollection,
        {"unsynced": "some"},
        cannot={"group": "it cannot count"},
        weaker="it never syncs",
        documents=200,
        slow=True,
        remark="A store for tests.",
    )
    monkeypatch.setattr(sqlite, "ADAPTER", limited)
    assert [workload.name for workload in WORKLOADS if not able(["sqlite3"], workload)] == [
        "group",
        "update",
        "insert",
        "insert-many",
    ]
    data = measured(tmp_path, "find-id", "group", "update", peers=BOTH)
    rates, *_ = SECTION.grids(data)
    at = rates.headings.index("sqlite3")
    assert [row[at] == "–" for row in rates.rows] == [False, True, True]
    for words in ("no fsynced lines, since it never syncs.", "Left out: it cannot count.", "It holds 100 documents"):
        assert words in rates.note


def test_a_repetition_ends_with_its_time_or_with_its_operands() -> None:
    done: list[object] = []
    assert repeat(done.append, range(7), 60.0, 3)[0] == 7
    assert done == list(range(7))
    assert repeat(done.append, range(7), 0.0, 3)[0] == 3


# -- targets ----------------------------------------------------------------------------------------------------------


def test_every_target_and_reason_is_of_a_workload_and_a_store_that_exist() -> None:
    for workload, peer in [*FLOORS, *REASONS]:
        assert workload in NAMES
        assert peer in {*STORES, ""}
    assert all(PROMISES.reason(workload, peer) for workload in NAMES for peer in STORES)


def test_every_line_but_the_scan_is_to_be_ahead_of_every_store() -> None:
    assert {name: PROMISES.floor(name, "sqlite3") for name in NAMES} == dict.fromkeys(NAMES, 1.0) | {"find-all": 0.9}
    assert PROMISES.floor("find-all", "ZODB") is None


def test_a_target_is_met_or_missed_by_the_ratio() -> None:
    (found,) = PROMISES.findings(figures(update__lowtide=2.0, update__sqlite3=1.0, update__ZODB=4.0))
    assert (found.met, found.measured) == (False, "0.50x ZODB, the closest")
    assert found.why == f"ZODB: {PROMISES.reason('update', 'ZODB')}"
    (found,) = PROMISES.findings(figures(update__lowtide=2.0, update__sqlite3=2.0))
    assert (found.met, found.why) == (True, "")
    (found,) = PROMISES.findings(figures(find_all__lowtide=0.9, find_all__sqlite3=1.0, find_all__ZODB=2.0))
    assert (found.met, found.measured, found.why) == (True, "0.90x", PROMISES.reason("find-all", "sqlite3"))
    (found,) = PROMISES.findings(figures(find_all__lowtide=0.89, find_all__sqlite3=1.0))
    assert not found.met


def test_stores_are_named_as_ahead_only_where_they_are() -> None:
    found = PROMISES.peers_ahead(figures(group__lowtide=1.0, group__ZODB=2.0, update__lowtide=2.0, update__ZODB=1.0))
    assert [(each.workload.name, each.peer, each.ratio.middle) for each in found] == [("group", "ZODB", 0.5)]
