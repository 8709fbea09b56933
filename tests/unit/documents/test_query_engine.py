"""The DuckDB instance of a process: opened once, with a connection for each query, and a new one after a fork."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import gettempdir

import duckdb
import pyarrow as pa
import pytest

from lowtide.documents import query_engine
from lowtide.documents.query_engine import connect


def test_a_connection_sees_only_what_was_registered_on_it() -> None:
    with connect() as first, connect() as second:
        first.register("rows", pa.table({"n": [1, 2]}))
        first.execute("create temp table made as select 1 as n")
        assert first.sql("select sum(n) from rows").fetchall() == [(3,)]
        for name in ("rows", "made"):
            with pytest.raises(duckdb.CatalogException):
                second.sql(f"select * from {name}")


def test_the_next_connection_finds_nothing_of_the_last() -> None:
    with connect() as connection:
        connection.register("rows", pa.table({"n": [1]}))
    with connect() as connection, pytest.raises(duckdb.CatalogException):
        connection.sql("select * from rows")


@pytest.mark.parametrize("external", [False, True])
def test_the_program_is_not_seen_and_times_are_in_utc(external: bool) -> None:
    rows = pa.table({"n": [1]})
    assert rows.num_rows
    with connect(external=external) as connection:
        assert connection.sql("select current_setting('TimeZone')").fetchall() == [("UTC",)]
        with pytest.raises(duckdb.CatalogException):
            connection.sql("select * from rows")


def test_files_and_settings_are_closed_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("n\n7\n")
    query = f"select n from '{tmp_path}/rows.csv'"
    with connect() as connection:
        with pytest.raises(duckdb.PermissionException):
            connection.sql(query)
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            connection.execute("set enable_external_access = true")
    with connect(external=True) as connection:
        assert connection.sql(query).fetchall() == [(7,)]


def test_threads_that_come_at_once_open_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_engine, "_engines", {})
    at_once = threading.Barrier(8)

    def ask(number: int) -> object:
        at_once.wait()
        with connect() as connection:
            return connection.sql(f"select {number}").fetchall()

    opened: list[object] = []
    real = query_engine._Engine.__init__

    def counted(self: query_engine._Engine, *, external: bool) -> None:
        opened.append(self)
        real(self, external=external)

    monkeypatch.setattr(query_engine._Engine, "__init__", counted)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(8))) == [[(number,)] for number in range(8)]
    assert len(opened) == 1


def test_what_does_not_fit_memory_goes_to_a_directory_of_its_own_and_leaves_it_with_the_query() -> None:
    engine = query_engine._Engine(external=True)
    with engine.connection() as connection:
        found = connection.sql("select current_setting('temp_directory')").fetchall()
        scratch = Path(found[0][0])
        assert scratch.parent == Path(gettempdir())
        assert scratch.stat().st_mode & 0o777 == 0o700
        connection.execute("set threads = 1; set memory_limit = '20MB'")
        rows = "select md5(n::varchar) as m from range(400_000) t(n)"
        query = f"select sum(k * length(m)) from (select m, row_number() over (order by m) as k from ({rows}))"
        assert connection.sql(query).fetchall() == [(32 * 400_000 * 400_001 // 2,)]
        left = list(scratch.iterdir())
        assert left, "the query has used it"
        assert sum(each.stat().st_size for each in left) == 0


_FORKING = """
import os, sys
from lowtide.documents import query_engine
from lowtide.documents.query_engine import connect

def answer():
    with connect() as connection:
        return connection.sql("select sum(n) from range(200000) t(n)").fetchall()

expected = answer()
scratch = query_engine._engines[False]._database.sql("select current_setting('temp_directory')").fetchall()[0][0]
child = os.fork()
if child == 0:
    assert answer() == expected
    sys.exit(0)  # runs what is to be done at exit
assert os.waitpid(child, 0)[1] == 0
assert os.path.isdir(scratch), "the child removed the directory of its parent"
assert answer() == expected
print(scratch)
"""


def test_a_forked_child_opens_its_own_and_leaves_that_of_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists(), "the directory goes with the process"
