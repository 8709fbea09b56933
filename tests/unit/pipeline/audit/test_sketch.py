"""The sketch says about all keys at once what the audit says about each key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.audit import History
from lowtide.audit.history import Name
from lowtide.pipeline.audit.batches import BACK, COUNT, FIRST, GLIMPSE
from lowtide.pipeline.audit.keys import Audited, audit_key
from lowtide.pipeline.audit.records import First, Glimpse, KeyShare, label, unpacker
from lowtide.pipeline.audit.sketch import sketch_keys, traits_of
from lowtide.pipeline.audit.transactions import divided, position, scale_of
from tests.unit.audit.histories import SMALLEST
from tests.unit.pipeline.audit.test_pieces import Rows, simulated


def by_version(rows: Rows) -> Rows:
    """The same rows, where reads of registers name versions and no values, if all of them can."""
    commits = {row["tx"]: row.get("version") for row in rows if row["op"] == "commit"}
    writes = {(row["key"], row["value"]): commits.get(row["tx"]) for row in rows if row["op"] == "write"}
    changed = []
    for row in rows:
        each = dict(row)
        if row["op"] == "read" and row.get("version") is None and writes.get((row["key"], row.get("value"))):
            each["version"] = writes[row["key"], each.pop("value")]
        elif row["op"] == "scan" and all(writes.get(pair) for pair in (row.get("values") or {}).items()):
            each["versions"] = {key: writes[key, value] for key, value in each.pop("values", {}).items()}
        changed.append(each)
    return changed


class Sketched:
    """The shares of a history, sketched; and audited key by key, for comparison."""

    def __init__(self, rows: Rows) -> None:
        transactions = [divided(each) for each in History.of(rows).transactions]
        headers = [header for header, _, _ in transactions if header.facts.outcome == "committed"]
        times = any(each.facts.begun is not None and each.facts.ended is not None for each in headers)
        scale = scale_of(times, any(each.facts.last is not None for each in headers))
        self.at: dict[Name, float] = {each.facts.name: position(each.facts, scale) or 0.0 for each in headers}
        self.shares: dict[str, list[KeyShare]] = {}
        for _, shares, _ in transactions:
            for key, share in shares.items():
                self.shares.setdefault(key, []).append(share)
        columns: dict[str, list[Any]] = {name: [] for name in ("key", "name", "at", "version", "number", "size")}
        for key, several in self.shares.items():
            for share in several:
                traits, seen = traits_of(key, share)
                facts = share.facts
                values = (key, label(facts.name), self.at.get(facts.name), position(facts, "version"), seen, traits)
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)
        kinds = (pa.string(), pa.string(), pa.float64(), pa.float64(), pa.int64(), pa.int64())
        schema = pa.schema(list(zip(columns, kinds, strict=True)))
        self.rows: list[dict[str, Any]] = []
        for batch in sketch_keys(iter([pa.RecordBatch.from_pydict(columns, schema=schema)])):
            self.rows += batch.to_pylist()
        self.others = {row["key"] for row in self.of(COUNT)}
        self.audited = {key: audit_key(key, shares) for key, shares in self.shares.items()}

    def of(self, what: int) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["what"] == what]

    @property
    def plain(self) -> list[Audited]:
        return [each for key, each in self.audited.items() if key not in self.others]


@given(st.composite(simulated)(), st.booleans())
@settings(max_examples=300)
def test_it_agrees_with_the_audit_of_each_key(rows: Rows, named: bool) -> None:
    if any(row.get("op") == "append" for row in rows):
        named = False
    try:
        found = Sketched(by_version(rows) if named else rows)
    except ValueError:
        return
    compare(found)


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_history_of_each_anomaly(name: str) -> None:
    compare(Sketched([row for transaction in SMALLEST[name] for row in transaction]))


def compare(found: Sketched) -> None:
    for each in found.plain:
        assert each.anomalies == []
        assert (each.unplaced, each.unresolved) == (0, 0)
    links = [(found.at[link.source], found.at[link.target]) for each in found.plain for link in each.links]
    back = {(source, target) for source, target in links if source >= target}
    assert {(row["at"], row["other_at"]) for row in found.of(BACK)} == back
    firsts = [unpacker(First)(row["payload"]) for row in found.of(FIRST)]
    assert {(each.key, each.name, each.end) for each in firsts} == {
        (first.key, first.name, first.end) for each in found.plain for first in each.firsts
    }
    told = {(row["name"], row["begin"], row["end"]) for row in found.of(GLIMPSE)}
    commits = {share.facts.name: share.facts.last for shares in found.shares.values() for share in shares}
    wanted = [glimpse for each in found.plain for glimpse in each.glimpses]
    assert told == {_told(each) for each in wanted if _is_told(each, commits[each.name])}
    apart = {row["name"] for row in found.of(GLIMPSE) if row["size"]}
    assert apart == {label(each.name) for each in wanted if _is_told(each, commits[each.name]) and commits[each.name]}


def _told(each: Glimpse) -> tuple[str, float, float]:
    return label(each.name), each.begin, each.end


def _is_told(each: Glimpse, commit: int | None) -> bool:
    """All but those that any other fits, and those that hold the commit before the transaction's own."""
    if each.begin == 0 and each.end == float("inf"):
        return False
    return commit is None or not each.begin < commit <= each.end


def test_a_right_history_by_versions_has_plain_keys_only() -> None:
    rows: Rows = []
    for number in range(1, 40):
        key, version = f"k{number % 5}", number - 5 if number > 5 else 0
        rows += [
            {"tx": number, "op": "begin", "index": 0, "time": 2.0 * number},
            {"tx": number, "op": "read", "index": 1, "key": key, "version": version},
            {"tx": number, "op": "write", "index": 2, "key": key, "value": number},
            {"tx": number, "op": "commit", "index": 3, "version": number, "time": 2.0 * number + 1},
        ]
    found = Sketched(rows)
    assert found.others == set()
    assert found.of(BACK) == found.of(GLIMPSE) == []
    assert len(found.of(FIRST)) == 5
