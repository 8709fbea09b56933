"""The sections that compare stores: what they measure on a small scale, what they refuse, and what they show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.bank import ACCOUNTS, HOT, LEVELS, MONEY, MoneyLost
from bench.bank import SECTION as BANK
from bench.compare import SECTION as COMPARE
from bench.compare import LostUpdate
from bench.peers import Adapter, Change, ChangeSeveral, Durability, Session, sqlite
from bench.peers.sqlite import SqlitePeer, SqliteSession
from bench.section import Data, Plan, Section
from bench.ycsb import MIXES, THREADS
from bench.ycsb import SECTION as YCSB

PEERS = frozenset({"lowtide", "sqlite3", "py-lmdb"})


def small(place: Path, *only: str, peers: frozenset[str] = PEERS) -> Plan:
    shares: list[float] = []

    def step(doing: str, share: float) -> None:
        assert doing
        assert 0 <= share <= 1
        shares.append(share)
        assert shares == sorted(shares)

    return Plan(place, True, step, frozenset(only), peers, rounds=1, seconds=0.01, documents=300)


def kept(section: Section, plan: Plan) -> Data:
    """What a section measured, after a way through a file."""
    found: Data = json.loads(json.dumps(section.run(plan)))
    return found


class ForgetfulSession(SqliteSession):
    """Loses an update now and then, as a store without isolation would."""

    _calls = 0

    def modify(self, key: bytes, change: Change) -> None:
        self._calls += 1
        if self._calls % 3:
            super().modify(key, change)

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        return super().modify_several(keys, lambda values: [change(values)[0], values[1] or b""])


class ForgetfulPeer(SqlitePeer):
    def session(self) -> Session:
        return ForgetfulSession(self._connect())


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "ADAPTER", Adapter(ForgetfulPeer, {"synced": "no", "unsynced": "no"}))


def test_every_store_is_measured_in_every_workload(tmp_path: Path) -> None:
    data = kept(COMPARE, small(tmp_path))
    measured = {(row[0], row[1]) for row in data["figures"]["rows"]}
    assert measured == {(workload, peer) for workload in COMPARE.workloads for peer in PEERS}
    rates, ratios, *_ = COMPARE.grids(data)
    assert len(rates.rows) == len(ratios.rows) == len(COMPARE.workloads)
    assert not any("–" in row for row in rates.rows)
    assert "(" in rates.rows[-1][1], "the writer beside the readers is in brackets"
    assert len(COMPARE.findings(data)) > 20


def test_a_store_that_loses_an_update_ends_the_comparison(tmp_path: Path, forgetful: None) -> None:
    with pytest.raises(LostUpdate, match="sqlite3, rmw-unsynced: "):
        COMPARE.run(small(tmp_path, "rmw-unsynced"))


def test_a_store_that_loses_money_ends_the_bank(tmp_path: Path, forgetful: None) -> None:
    with pytest.raises(MoneyLost, match="sqlite3"):
        BANK.run(small(tmp_path, peers=frozenset({"sqlite3"})))


def test_what_a_store_cannot_do_is_a_dash_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[Durability, str] = {"synced": "yes"}
    limited = Adapter(SqlitePeer, settings, cannot={"order": "it has no order", "unsynced": "it always syncs"})
    monkeypatch.setattr(sqlite, "ADAPTER", limited)
    data = kept(COMPARE, small(tmp_path, "fast-read", "scan", "rmw", "rmw-unsynced"))
    rates, *_ = COMPARE.grids(data)
    at = rates.headings.index("sqlite3")
    assert [row[at] == "–" for row in rates.rows] == [False, True, False, True]
    assert "it has no order" in rates.note
    assert "it always syncs" in rates.note


def test_ycsb_measures_every_mix_with_one_thread_and_with_four(tmp_path: Path) -> None:
    data = kept(YCSB, small(tmp_path))
    measured = {(row[0], row[1]) for row in data["figures"]["rows"]}
    assert measured == {(f"{mix.name}/{threads}", peer) for mix in MIXES for threads in THREADS for peer in PEERS}
    assert all(row[3] > 0 for row in data["figures"]["rows"])
    assert [len(grid.rows) for grid in YCSB.grids(data)] == [len(MIXES)] * len(THREADS)


def test_the_bank_keeps_its_money_and_counts_what_was_refused(tmp_path: Path) -> None:
    data = kept(BANK, small(tmp_path))
    assert data["totals"] == dict.fromkeys([*LEVELS, "sqlite3", "py-lmdb"], ACCOUNTS * MONEY)
    assert {(row["store"], row["hot"]) for row in data["rows"]} == {
        (store, hot) for store in data["totals"] for hot in HOT
    }
    assert all(row["transfers"] > 0 for row in data["rows"])
    assert all(row["refused"] == 0 for row in data["rows"] if row["store"] not in LEVELS)
    assert BANK.findings(data)[0].met
    data["totals"]["sqlite3"] -= 1
    assert not BANK.findings(data)[0].met
