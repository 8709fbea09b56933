"""The Python code in README and docs runs, each document from top to bottom, and prints what its comments say."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, code_blocks, documents, name_of
from tests.support.java import needs_java
from tests.support.workers import PAGES_WITH_SPARK

_SHOWN = re.compile(r"\bprint\(.*\)  # (?P<shown>.+)$", re.MULTILINE)
WITH_CODE = [document for document in documents() if code_blocks(document, "python")]


def _needing(document: Path) -> object:
    return pytest.param(document, marks=needs_java() if name_of(document) in PAGES_WITH_SPARK else ())


@pytest.mark.parametrize("document", [*map(_needing, WITH_CODE)], ids=[*map(name_of, WITH_CODE)])
def test_the_python_in_it_runs(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name_of(document) in PAGES_WITH_SPARK:
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in code_blocks(document, "python"):
        output = io.StringIO()
        # Padded, so that a traceback names the document's own line.
        code = compile("\n" * (block.line - 1) + block.code, str(document), "exec")
        with redirect_stdout(output):
            exec(code, namespace)
        assert output.getvalue().splitlines() == _SHOWN.findall(block.code)


def test_the_readme_shows_a_result_in_its_first_minute() -> None:
    first = code_blocks(ROOT / "README.md", "python")[0]
    lines = [line for line in first.code.splitlines() if line.strip()]
    assert len(lines) <= 15
    assert len(_SHOWN.findall(first.code)) == 2


def test_the_first_example_runs_twice(tmp_path: Path) -> None:
    """As a file of its own, twice in the same directory: the second time the store is there already."""
    first = code_blocks(ROOT / "README.md", "python")[0]
    (tmp_path / "first.py").write_text(first.code)
    for _ in range(2):
        run = subprocess.run([sys.executable, "first.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert run.stdout.splitlines() == _SHOWN.findall(first.code)


def test_the_copy_of_a_snapshot_holds_what_the_store_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backup that the operations page recommends, with something in the store."""
    import lowtide

    monkeypatch.chdir(tmp_path)
    with lowtide.open("data") as store, store.transaction() as tx:
        for number in range(25_000):
            tx.keyspace("many").put(b"%05d" % number, b"%d" % number)
        tx.keyspace("one").put(b"key", b"value")
    blocks = code_blocks(ROOT / "docs" / "operations.md", "python")
    exec(next(block.code for block in blocks if "data-copy" in block.code), {})
    with lowtide.open("data") as store, lowtide.open("data-copy") as copy:
        assert copy.keyspaces() == store.keyspaces() == ["many", "one"]
        for name in store.keyspaces():
            assert list(copy.keyspace(name).scan()) == list(store.keyspace(name).scan())
