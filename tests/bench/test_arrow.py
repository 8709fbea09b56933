"""Arrow tables and imports on a small scale, and what the report shows of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import arrow, importing
from bench.section import Data, Plan
from tests.bench.support import check_shown, check_step


def test_every_way_is_measured_and_the_collection_is_read(tmp_path: Path) -> None:
    plan = Plan(tmp_path, True, check_step, peers=frozenset({"lowtide", "sqlite3"}))
    data = arrow.measure(plan, arrow.Scale(400, 1))
    assert [(read["reader"], read["rows"], read["columns"]) for read in data["reads"]] == [
        ("lowtide, to_arrow", 400, 11)
    ]
    assert [(each["way"], each["documents"]) for each in data["imports"]] == [
        ("lowtide, in batches", 400),
        ("lowtide, all or nothing", 400),
        ("sqlite3", 400),
        ("lowtide, in batches", 200),
    ]
    assert all(each["resident"] >= each["own"] > 0 for each in data["imports"])
    reading, imports = check_shown(arrow.SECTION, data, tmp_path)
    assert len(reading.rows) == len(data["reads"])
    assert len(imports.rows) == len(data["imports"])


def test_the_other_readers_make_the_same_table_of_the_lines(tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    assert importing.write_lines(file, 50) == file.stat().st_size
    for name in arrow.chosen(arrow.READERS, frozenset())[1:]:
        found = arrow.READERS[name](str(tmp_path), str(file))
        assert (found["rows"], found["columns"]) == (50, 11), name
        assert found["peak"] > 0


def test_names_begin_with_the_store_that_is_asked_for() -> None:
    assert arrow.chosen(importing.WAYS, frozenset({"sqlite3"})) == ["sqlite3"]
    assert arrow.chosen(arrow.READERS, frozenset({"lowtide", "sqlite3"})) == ["lowtide, to_arrow"]
    assert set(arrow.chosen(importing.WAYS, frozenset())) >= {arrow.BATCHED, arrow.AT_ONCE, "sqlite3"}


def example(whole: int, half: int) -> Data:
    return {
        "documents": 1000,
        "reads": [
            {"reader": "lowtide, to_arrow", "round": number, "seconds": seconds}
            for number, seconds in enumerate((1.0, 2.0, 4.0))
        ]
        + [{"reader": "another", "round": number, "seconds": 2.0} for number in range(3)],
        "imports": [
            {"way": arrow.BATCHED, "documents": 1000, "own": whole},
            {"way": arrow.AT_ONCE, "documents": 1000, "own": 9 * whole},
            {"way": arrow.BATCHED, "documents": 500, "own": half},
        ],
    }


def test_memory_that_grows_with_the_file_misses_the_target() -> None:
    (found,) = arrow.SECTION.findings(example(125 << 20, 100 << 20))
    assert found.met
    assert found.measured == "1.25x, 125 MiB"
    (found,) = arrow.SECTION.findings(example(126 << 20, 100 << 20))
    assert not found.met


def test_a_ratio_is_the_median_of_those_within_a_round() -> None:
    assert arrow.ratio(example(1, 1), "another") == 1.0
    assert arrow.rows_per_second(example(1, 1), "lowtide, to_arrow") == 500.0


def test_an_import_that_fails_is_not_measured(tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    importing.write_lines(file, 10)
    with pytest.raises(importing.ImportFailed, match="sqlite3: status 0"):
        importing.watched("sqlite3", tmp_path / "a", file, 11)
    file.write_text("this is not JSON\n")
    with pytest.raises(importing.ImportFailed, match="sqlite3: status 1"):
        importing.watched("sqlite3", tmp_path / "b", file, 1)
