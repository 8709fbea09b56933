"""A history that is audited in pieces shows what the audit of the whole shows."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.audit import History, audit
from tests.unit.audit.histories import SMALLEST
from tests.unit.audit.simulator import Simulator
from tests.unit.pipeline.audit.locally import Local

Rows = list[dict[str, Any]]
Form = set[tuple[str, frozenset[Any], tuple[str, ...]]]


def forms_of_the_whole(rows: Rows) -> Form:
    history = History.of(rows)
    return {
        (each.name, frozenset(history.transactions[tx].name for tx in each.transactions), each.keys)
        for each in audit(history).findings
    }


def forms_in_pieces(rows: Rows, every: int = 1) -> Form:
    return {(each.name, frozenset(each.transactions), tuple(each.keys)) for each in Local(rows, every).anomalies}


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_history_of_each_anomaly(name: str) -> None:
    rows = [row for transaction in SMALLEST[name] for row in transaction]
    assert name in Local(rows).names
    assert forms_in_pieces(rows) == forms_of_the_whole(rows)


def simulated(draw: st.DrawFn) -> Rows:
    chance = random.Random(draw(st.integers(0, 2**32)))
    simulator = Simulator(
        chance.randrange(2**32),
        snapshot=chance.random() < 0.6,
        writers=chance.random() < 0.6,
        readers=chance.random() < 0.5,
        lists=chance.random() < 0.5,
        blind=chance.random() < 0.3,
    )
    rows = simulator.run(chance.choice([5, 15, 40]), chance.choice([1, 2, 4]))
    if not simulator.lists:
        rows = with_deletes(rows, chance)
    return disturbed(with_ranges(rows, chance), chance, simulator.lists)


def with_deletes(rows: Rows, chance: random.Random) -> Rows:
    """Some writes become deletes, or merge with what was there, and some reads name versions."""
    share, merging = chance.choice([0, 0, 0.1]), chance.choice([0, 0, 0.3])
    deletes = {(row["key"], row["value"]) for row in rows if row["op"] == "write" and chance.random() < share}
    commits = {row["tx"]: row["version"] for row in rows if row["op"] == "commit" and row["version"] is not None}
    versions = {(row["key"], row["value"]): commits.get(row["tx"]) for row in rows if row["op"] == "write"}
    name_versions, changed = chance.random() < 0.4, []
    for row in rows:
        each = dict(row)
        if row["op"] in ("read", "write"):
            version = versions.get((row["key"], row["value"]), 0)
            if (row["key"], row["value"]) in deletes:
                each["value"] = None
            elif row["op"] == "write" and chance.random() < merging:
                each["merged"] = True
            if name_versions and row["op"] == "read" and version is not None and chance.random() < 0.8:
                each["version"] = version
                if chance.random() < 0.5:
                    del each["value"]
        elif row["op"] == "scan":
            each["values"] = {key: value for key, value in row["values"].items() if (key, value) not in deletes}
            if name_versions and all(versions.get(each) for each in row["values"].items()):
                each["versions"] = {key: versions[key, value] for key, value in each["values"].items()}
        changed.append(each)
    return changed


def with_ranges(rows: Rows, chance: random.Random) -> Rows:
    """The scans are of parts of the keys."""
    changed = []
    for row in rows:
        each = dict(row)
        if row["op"] == "scan":
            low, high = chance.choice([None, "a", "b"]), chance.choice([None, "c", "d"])
            inside = {key for key in "abcd" if key >= (low or "") and (high is None or key < high)}
            each |= {"low": low, "high": high}
            for field in ("values", "versions"):
                if field in row:
                    each[field] = {key: value for key, value in row[field].items() if key in inside}
        changed.append(each)
    return changed


def disturbed(rows: Rows, chance: random.Random, lists: bool) -> Rows:
    """Rows with faults of every kind, or none: changed reads, lost ends, no times, no versions, sessions."""
    drop = {name for name in ("time", "version") if chance.random() < 0.3 and (lists or name != "version")}
    with_sessions, faults = chance.random() < 0.4, chance.choice([0, 0, 0.02, 0.1])
    untimed = {row["tx"] for row in rows if chance.random() < chance.choice([0, 0, 0.05])}
    written: dict[str, list[Any]] = {}
    kept = []
    for row in rows:
        changed = {
            field: value
            for field, value in row.items()
            if field not in drop and not (field == "time" and row["tx"] in untimed)
        }
        if row["op"] in ("write", "append"):
            written.setdefault(row["key"], []).append(row["value"])
        if with_sessions and row["op"] == "begin":
            changed |= {"session": f"s{row['tx'] % 3}", "turn": row["tx"]}
        if chance.random() < faults:
            if row["op"] in ("commit", "abort"):
                continue
            if row["op"] == "read" and written.get(row["key"]) and "value" in row:
                values = written[row["key"]]
                changed["value"] = chance.choice([None, values[: chance.randrange(len(values)) + 1], values[-1:]])
                if not lists:
                    changed["value"] = chance.choice([*values[-3:], None])
            elif row["op"] == "scan" and row["values"]:
                missed = chance.choice(sorted(row["values"]))
                changed["values"] = {key: value for key, value in row["values"].items() if key != missed}
        kept.append(changed)
    return kept


@settings(max_examples=400)
@given(st.composite(simulated)(), st.integers(1, 5))
def test_pieces_show_what_the_whole_shows(rows: Rows, every: int) -> None:
    assert forms_in_pieces(rows, every) == forms_of_the_whole(rows)


def test_of_two_keys_that_one_commit_wrote_the_same_one_is_named() -> None:
    """The scan shows two keys as they were before commit 3, after a read that saw this commit."""
    rows: Rows = [
        {"tx": 4, "op": "write", "key": "c", "value": 404},
        {"tx": 4, "op": "commit", "version": 2},
        {"tx": 1, "op": "write", "key": "c", "value": 101},
        {"tx": 1, "op": "write", "key": "b", "value": 102},
        {"tx": 1, "op": "commit", "version": 3},
        {"tx": 7, "op": "read", "key": "b", "value": 102},
        {"tx": 7, "op": "scan", "low": "a", "high": "d", "values": {"c": 404}},
        {"tx": 7, "op": "commit", "version": None},
    ]
    found = forms_of_the_whole(rows)
    assert ("observed-vanishes", frozenset((1, 7)), ("b", "b")) in found
    assert forms_in_pieces(rows) == found


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_a_correct_history_shows_nothing(seed: int, lists: bool, blind: bool) -> None:
    simulator = Simulator(seed, snapshot=True, writers=True, readers=True, lists=lists, blind=blind)
    pieces = Local(with_ranges(simulator.run(40, 4), random.Random(seed)))
    assert pieces.names == set()
    assert max(pieces.sizes, default=0) < 20
