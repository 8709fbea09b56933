"""A witness names the transactions and the keys, and gives the reason for each step."""

from __future__ import annotations

import pytest

from lowtide.audit.anomalies import MEANINGS
from lowtide.audit.levels import PROSCRIBED
from tests.docs.documents import ROOT, section, table
from tests.unit.audit.histories import SETUP, SMALLEST, a, r, report, tx, w


@pytest.mark.parametrize("name", SMALLEST)
def test_a_witness_begins_with_the_name_and_its_meaning(name: str) -> None:
    (first, *_) = report(*SMALLEST[name]).of(name)
    assert first.startswith(f"{name} ({MEANINGS[name]}): ")
    assert "comes before" not in first  # an edge without a reason


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("G0", "T1 wrote x = 1 (version 1), which T2 overwrote with 2 (version 2)"),
        ("G1a", "T2 read x = 1, which T1 wrote and rolled back"),
        ("G1b", "T2 read x = [1], which T1 wrote and overwrote before it committed"),
        ("G1c", "T2 read x = 1 (version 1), which T1 wrote"),
        ("garbage", "no transaction wrote 7 to x"),
        ("duplicate", "1 is twice in x"),
        ("internal", "T1 read x = None, though it had written 1"),
        ("incompatible-order", "x was read as [2] and as [1, 2]"),
        ("fractured-scan", "a scan of T2 saw y as of commit 2, and x as it was before commit 2"),
        ("observed-vanishes", "T2 saw x as of commit 2, and afterwards y as it was before commit 2"),
        ("stale-read", "T1 ended at 2.0, before T2 began at 3.0"),
        ("lost-update", "T1 and T2 both read x as T100 left it, and both wrote it"),
        ("lost-update", "T2 read x = 0 (version 1), which T1 overwrote with 1 (version 2)"),
        ("lost-update", "which puts T1 before T2, T2 before T1"),
        ("G2", "T1 scanned from 'a' to 'c' and found no b, which T3 then wrote as 3 (version 4)"),
    ],
)
def test_it_says_why(name: str, words: str) -> None:
    text = "\n".join(report(*SMALLEST[name]).of(name))
    assert words in text


def test_lists_are_told_by_their_elements() -> None:
    skew = tx(3, r("x", [1, 2]), a("y", 9)), tx(5, r("y", []), a("x", 3)), tx(1, a("x", 1), a("x", 2))
    text = str(report(*skew, tx(9, r("x", [1, 2, 3]), r("y", [9]))))
    assert "T3 read x = [1, 2], which T5 overwrote by appending 3" in text
    assert "T5 found no y, which T3 overwrote by appending 9" in text


def test_a_long_list_is_shortened() -> None:
    elements = list(range(20))
    wrote = tx(1, *(a("x", element) for element in elements))
    single = tx(2, r("x", elements), r("y", [])), tx(3, a("y", 1), a("x", 99)), tx(4, r("y", [1]), r("x", elements))
    text = str(report(wrote, *single, tx(5, r("x", [*elements, 99]))))
    assert "read x = [..., 14, 15, 16, 17, 18, 19], which T3 overwrote by appending 99" in text


def test_sessions_and_deletes_have_words() -> None:
    wrote = tx(1, w("x", None), version=2, session="s", turn=1)
    text = str(report(SETUP, wrote, tx(2, r("x", 0), session="s", turn=2)))
    assert "T1 came before T2 in session 's' (1, 2)" in text
    assert "T2 read x = 0 (version 1), which T1 deleted (version 2)" in text


def test_the_table_of_the_page_is_that_of_the_source() -> None:
    rows = table(section(ROOT / "docs" / "audit.md", "What is found"))
    assert [row[:2] for row in rows] == [[f"`{name}`", meaning] for name, meaning in MEANINGS.items()]
    for row in rows:
        name = row[0].strip("`")
        assert row[2:] == ["forbidden" if name in names else "allowed" for names in PROSCRIBED.values()]
