"""Each example runs as a script, prints something and succeeds. So do the demo and the benchmarks, on a small scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tests.bench.support import on_disk
from tests.support.patience import PATIENCE
from tests.support.warm import start

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SPARK = [path for path in EXAMPLES if "spark" in path.stem.split("_")]
"""Those are run in tests/spark, where the session is."""


def run(*arguments: str | Path) -> str:
    """The output of a Python program that ends well; it goes to no terminal."""
    environment = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "COLUMNS"}}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


AS_SCRIPT = """
import os, runpy, sys
for name in ("FORCE_COLOR", "COLUMNS"):
    os.environ.pop(name, None)
os.chdir(sys.argv[2])
sys.argv = [sys.argv[1]]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("example", [path for path in EXAMPLES if path not in SPARK], ids=lambda path: str(path.stem))
def test_the_example_runs(example: Path, tmp_path: Path) -> None:
    """In a fork of a process that has imported Lowtide and nothing else."""
    errors = tmp_path / "errors"
    with errors.open("w") as file:
        process = start(AS_SCRIPT, example, ROOT, stderr=file.fileno())
    try:
        process.stdin.close()
        output = process.stdout.read()
        status = process.wait(PATIENCE)
    finally:
        process.close()
    assert (status, errors.read_text()) == (0, ""), output
    assert output.strip()


def test_each_example_says_what_it_shows() -> None:
    for example in EXAMPLES:
        assert example.read_text().startswith('"""'), example.name
    assert len(EXAMPLES) >= 8


def test_the_demo_keeps_its_promises_and_prints_plain_text(tmp_path: Path) -> None:
    output = run("-m", "demo", "--quick", "--output", tmp_path)
    assert {unicodedata.category(each) for each in output} & {"Cc", "Cf"} <= {"Cc"}
    assert {each for each in output if unicodedata.category(each) == "Cc"} == {"\n"}
    assert "FAILED" not in output
    assert (tmp_path / "versions-kept.png").read_bytes().startswith(b"\x89PNG")


def test_the_benchmark_prints_tables_and_makes_a_report(tmp_path: Path) -> None:
    tiny = ("--rounds", "1", "--seconds", "0.02", "--documents", "2000", "--directory", on_disk(tmp_path))
    results = tmp_path / "results"
    limits = ("--only", "fast-read", "--only", "rmw-unsynced", "--peers", "lowtide,sqlite3,py-lmdb")
    output = run("-m", "bench", *limits, *tiny, "--results", results)
    for words in ("Operations per second", "lowtide", "sqlite3", "py-lmdb", "point read, fast path", "Targets"):
        assert words in output
    document = json.loads((results / "compare.json").read_text())
    figures = document["data"]["figures"]
    assert {(row[0], row[1]) for row in figures["rows"]} == {
        (workload, peer) for workload in ("fast-read", "rmw-unsynced") for peer in ("lowtide", "sqlite3", "py-lmdb")
    }
    assert all(row[figures["fields"].index("rate")] > 0 for row in figures["rows"])
    assert document["machine"]["cores"] == os.cpu_count()
    assert document["data"]["documents"] == 2000
    report = (results / "README.md").read_text()
    assert "point read, fast path" in report
    assert "![" in report
    assert (results / "compare.svg").read_text().startswith("<?xml")
    run("-m", "bench", "--report", "--results", results)
    assert (results / "README.md").read_text() == report


def test_one_section_runs_alone_and_keeps_its_data(tmp_path: Path) -> None:
    kept = tmp_path / "samples.json"
    tiny = ("--updates", "800", "--keys", "100", "--every", "200", "--directory", on_disk(tmp_path))
    output = run("-m", "bench.long_reader", *tiny, "--json", kept)
    for words in ("One idle reader", "Over time", "updates/s", "no reader", "throughput: at least 0.9x"):
        assert words in output
    assert len(json.loads(kept.read_text())["samples"]["no reader"]) == 4


def test_the_cost_of_an_origin_is_printed_as_a_ratio() -> None:
    output = run("-m", "bench.origin", "--rounds", "2", "--count", "5")
    assert output.count("ratio") == 4
    assert "of a begin" in output


def test_a_workload_that_does_not_exist_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--only", "nothing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "fast-read" in done.stderr
