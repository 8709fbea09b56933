"""Arrow tables and imports on a small scale, and what is shown of them."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest

from bench import arrow, importing
from bench.section import Data
from tests.bench.support import check_shown, make_plan

if util.find_spec("pyarrow") is None:
    pytest.skip("pyarrow is not installed", allow_module_level=True)


def test_every_reader_and_every_way_is_measured(tmp_path: Path) -> None:
    data = arrow.measure(make_plan(tmp_path), arrow.Scale(400, 1))
    assert {read["reader"] for read in data["reads"]} >= {"lowtide, to_arrow", "pyarrow, read_json"}
    assert all(read["rows"] == 400 and read["columns"] == 11 for read in data["reads"])
    assert [(each["way"], each["documents"]) for each in data["imports"]][:3] == [
        ("lowtide, in batches", 400),
        ("lowtide, all or nothing", 400),
        ("sqlite3", 400),
    ]
    assert data["imports"][-1]["way"] == "lowtide, in batches"
    assert data["imports"][-1]["documents"] == 200
    assert all(each["resident"] >= each["own"] > 0 for each in data["imports"])
    reading, imports = check_shown(arrow.SECTION, data, tmp_path)
    assert len(reading.rows) == len(arrow.readers_of(data))
    assert len(imports.rows) == len(data["imports"])


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
    importing.write_lines(str(file), 10)
    with pytest.raises(importing.ImportFailed, match="sqlite3: status 0"):
        importing.watched("sqlite3", tmp_path / "a", file, 11)
    file.write_text("this is not JSON\n")
    with pytest.raises(importing.ImportFailed, match="sqlite3: status 1"):
        importing.watched("sqlite3", tmp_path / "b", file, 1)
