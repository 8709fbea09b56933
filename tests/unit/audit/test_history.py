"""Histories are read and written as JSON Lines, and an error names the wrong line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide import UsageError
from lowtide.audit import History, Row, audit, write_rows

GOOD = '{"tx": 1, "op": "write", "key": "x", "value": 1}\n'


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = [
        Row(tx="a", op="begin", index=0, session=1, turn=2, time=3.5),
        Row(tx="a", op="read", index=1, key="x", value=None),
        Row(tx="a", op="read", index=2, key="x", version=4),
        Row(tx="a", op="append", index=3, key="é\n", value="e"),
        Row(tx="a", op="scan", index=4, low="a", values={"b": [1, "c"]}),
        Row(tx="a", op="commit", index=5, version=7, time=4),
    ]
    write_rows(tmp_path / "h.jsonl", rows)
    (transaction,) = History.load(tmp_path / "h.jsonl").transactions
    assert transaction.operations == rows[1:5]
    assert (transaction.outcome, transaction.version, transaction.session, transaction.turn) == ("committed", 7, 1, 2)
    assert (transaction.begun, transaction.ended) == (3.5, 4)


def test_without_an_index_the_order_of_the_file_counts() -> None:
    rows = [{"tx": 1, "op": "write", "key": "x", "value": number} for number in (1, 2)]
    (transaction,) = History.of(rows).transactions
    assert [row.value for row in transaction.operations] == [1, 2]
    assert transaction.outcome == "unknown"


def test_numbers_come_before_names(tmp_path: Path) -> None:
    names = ["b", 10, "a", 9]
    history = History.of({"tx": name, "op": "commit"} for name in names)
    assert [str(each) for each in history.transactions] == ["T9", "T10", "a", "b"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: Input data was truncated"),
        ("[]", "line 2: Expected `object`, got `array`"),
        ('{"tx": 1}', "line 2: Object missing required field `op`"),
        ('{"tx": 1, "op": "increment"}', "line 2: Invalid enum value 'increment'"),
        ('{"tx": 1, "op": "commit", "verson": 3}', "line 2: Object contains unknown field `verson`"),
        ('{"tx": true, "op": "commit"}', "line 2: Expected `int | str`, got `bool`"),
        ('{"tx": 1, "op": "read", "value": 3}', "line 2: a read names its key"),
        ('{"tx": 1, "op": "read", "key": "x"}', "line 2: a read says what it saw"),
        ('{"tx": 1, "op": "write", "key": "x"}', "line 2: a write has a value"),
        ('{"tx": 1, "op": "write", "key": "x", "value": [1]}', "line 2: a write has a value"),
        ('{"tx": 1, "op": "append", "key": "x", "value": null}', "line 2: an append has a value"),
        ('{"tx": 1, "op": "scan"}', "line 2: a scan says what it found"),
        ('{"tx": 1, "op": "read", "key": "x", "version": -1}', "line 2: versions are numbers from 0 on"),
        ('{"tx": 1, "op": "read", "key": "\\ud800", "value": 1}', "line 2"),
        ("\xff", "line 2"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(GOOD.encode() + line.encode("latin-1") + b"\n")
    with pytest.raises(UsageError) as refusal:
        History.load(path)
    assert complaint in str(refusal.value)
    assert "h.jsonl, line 2" in str(refusal.value)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([{"op": "commit"}, {"op": "commit"}], "continues after its end, with a commit"),
        ([{"op": "commit"}, {"op": "read", "key": "x", "value": 1}], "continues after its end, with a read"),
        ([{"op": "read", "key": "x", "value": 1}, {"op": "begin"}], "begins after its first operation"),
        ([{"op": "begin", "time": 5}, {"op": "commit", "time": 4}], "ends before it begins"),
        ([{"op": "begin", "index": 1}, {"op": "commit"}], "some have none"),
        ([{"op": "begin", "index": 1}, {"op": "commit", "index": 1}], "the same index"),
        ([{"op": "begin"}, {"op": 7}], "row 2: Expected `str`"),
    ],
)
def test_a_transaction_that_makes_no_sense_is_refused(rows: list[dict[str, object]], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        History.of({"tx": 1, **row} for row in rows)


def test_empty_lines_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_text(f"\n{GOOD}  \n")
    assert len(History.load(tmp_path / "h.jsonl").transactions) == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_a_history_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    try:
        history = History.load(path)
    except UsageError:
        return
    assert audit(history).level


OPERATIONS = st.fixed_dictionaries(
    {
        "tx": st.integers(1, 4),
        "op": st.sampled_from(["begin", "read", "write", "append", "scan", "commit", "abort"]),
    },
    optional={
        "key": st.sampled_from("xyz"),
        "value": st.none() | st.integers(0, 4) | st.lists(st.integers(0, 4), max_size=3),
        "version": st.integers(-1, 5),
        "low": st.sampled_from("xyz"),
        "high": st.sampled_from("xyz"),
        "values": st.dictionaries(st.sampled_from("xyz"), st.integers(0, 4), max_size=2),
        "time": st.floats(allow_nan=False),
        "session": st.integers(0, 1),
        "turn": st.integers(0, 3),
    },
)


@given(st.lists(OPERATIONS, max_size=12))
def test_any_rows_are_judged_or_refused(rows: list[dict[str, object]]) -> None:
    try:
        report = audit(History.of(rows))
    except UsageError:
        return
    assert str(report)
    assert report.as_data()["ok"] is report.ok
