"""The pages of LMDB's file, examined without LMDB: sound files have no fault, and each kind of damage is found (K5)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

import lowtide
from lowtide.engine.base import soundness
from lowtide.engine.base.pages import Unreadable
from lowtide.engine.base.soundness import check_environment
from lowtide.engine.base.structure import FREE, TABLES, Examiner, Structure

PAGE = 4096


def make(path: Path, seed: int, turns: int = 12) -> None:
    """A file with all that LMDB has: large values, many values of one key, deep trees, free pages."""
    chance = random.Random(seed)
    with lmdb.open(str(path), map_size=1 << 26, max_dbs=4) as env:
        rows = env.open_db(b"rows")
        index = env.open_db(b"index", dupsort=True)
        env.open_db(b"empty")
        for _ in range(turns):
            with env.begin(write=True) as txn:
                for _ in range(300):
                    key = b"%05d" % chance.randrange(2000)
                    size = chance.choice([0, 8, 100, 1000, 3000, 9000])
                    if chance.random() < 0.25:
                        txn.delete(key, db=rows)
                    else:
                        txn.put(key, chance.randbytes(size), db=rows)
                    dup = chance.choice([b"often", b"often", key])
                    if chance.random() < 0.2:
                        txn.delete(dup, db=index)
                    txn.put(dup, chance.randbytes(16), db=index)


def examine(path: Path) -> Structure:
    with Examiner(path / "data.mdb") as examiner:
        return examiner.examine()


@pytest.mark.parametrize("seed", range(6))
def test_a_file_that_lmdb_wrote_has_no_fault_and_no_page_is_missed(tmp_path: Path, seed: int) -> None:
    make(tmp_path, seed)
    with Examiner(tmp_path / "data.mdb") as examiner:
        assert examiner.examine().faults == []
        assert sorted([*examiner.used, *examiner.free]) == list(range(2, examiner.last_page + 1))
        assert {"rows", "index", TABLES} <= set(examiner.used.values())


def test_a_state_that_is_read_stays_readable_while_others_write(tmp_path: Path) -> None:
    make(tmp_path, 1, turns=3)
    with lmdb.open(str(tmp_path), map_size=1 << 26, max_dbs=4) as env, env.begin() as txn:
        with Examiner(tmp_path / "data.mdb", txn.id()) as examiner:
            for number in range(4):
                with env.begin(write=True) as writer:
                    writer.put(b"%d" % number, b"x" * 5000)
            assert examiner.examine().faults == []
        with pytest.raises(Unreadable, match="states of LMDB's transactions"):
            Examiner(tmp_path / "data.mdb", txn.id())


def set_bytes(at: int, new: bytes) -> Callable[[bytearray], None]:
    def change(page: bytearray) -> None:
        page[at : at + len(new)] = new

    return change


DAMAGES: list[tuple[str, Callable[[bytearray], None], str]] = [
    ("another number", set_bytes(0, b"\x07\x07"), "its header says page"),
    ("another kind", set_bytes(10, b"\x08\x00"), "flags"),
    ("no nodes", set_bytes(12, b"\x10\x00"), "it has 0 nodes"),
    ("too much room", set_bytes(14, b"\xff\xff"), "its free space"),
    ("a node outside", set_bytes(16, b"\xfe\x0f"), "a node lies outside of it"),
    ("nodes in another order", lambda page: page.__setitem__(slice(16, 20), page[18:20] + page[16:18]), "order"),
]


@pytest.mark.parametrize(("damage", "words"), [each[1:] for each in DAMAGES], ids=[each[0] for each in DAMAGES])
def test_damage_to_a_page_is_named_with_its_table(
    tmp_path: Path, damage: Callable[[bytearray], None], words: str
) -> None:
    make(tmp_path, 3)
    with Examiner(tmp_path / "data.mdb") as examiner:
        examiner.examine()
        data = bytearray((tmp_path / "data.mdb").read_bytes())
        leaves = [n for n, table in examiner.used.items() if table == "rows" and data[n * PAGE + 10] == 2]
    number = leaves[1]
    page = data[number * PAGE : (number + 1) * PAGE]
    damage(page)
    data[number * PAGE : (number + 1) * PAGE] = page
    (tmp_path / "data.mdb").write_bytes(data)
    faults = examine(tmp_path).faults
    assert ("rows", number) in {(each.table, each.page) for each in faults}, faults
    assert words in str(next(each for each in faults if each.page == number))


def test_a_page_that_is_free_and_in_use_is_named(tmp_path: Path) -> None:
    make(tmp_path, 4)
    with Examiner(tmp_path / "data.mdb") as examiner:
        examiner.examine()
        victim = next(number for number, table in examiner.used.items() if table == "rows")
        examiner._free_pages = lambda content: [victim]  # type: ignore[method-assign]
        examiner.used.clear()
        faults = examiner.examine().faults
    assert any(each.table == FREE and each.page == victim and "in use by 'rows'" in each.what for each in faults)


def test_what_is_no_lmdb_file_is_unreadable(tmp_path: Path) -> None:
    for content in (b"", b"x" * 100, bytes(3 * PAGE), b"x" * 3 * PAGE):
        (tmp_path / "data.mdb").write_bytes(content)
        with pytest.raises(Unreadable):
            examine(tmp_path)


def test_a_large_file_is_examined_when_opened_as_far_as_opening_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lowtide.open(tmp_path / "store", checkpointer="thread") as store:
        store.keyspace("k").put(b"x", b"1")
    base = tmp_path / "store" / "base"
    with Examiner(base / "data.mdb") as examiner:
        examiner.examine()
        of_rows, of_meta = (next(n for n, table in examiner.used.items() if table == each) for each in ("rows", "meta"))
    monkeypatch.setattr(soundness, "MOST_PAGES", 0)
    for number, opens in ((of_rows, True), (of_meta, False)):
        shutil.copytree(base, tmp_path / f"copy {number}")
        with (tmp_path / f"copy {number}" / "data.mdb").open("r+b") as file:
            file.seek(number * PAGE)
            file.write(bytes(PAGE))
        with lmdb.open(str(tmp_path / f"copy {number}"), max_dbs=16) as env:
            if opens:
                check_environment(env, tmp_path / f"copy {number}", most=0)
            with pytest.raises(lowtide.CorruptionError, match=f"page {number}, of the table"):
                check_environment(env, tmp_path / f"copy {number}", most=None if opens else 0)
