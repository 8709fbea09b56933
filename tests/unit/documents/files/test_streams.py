"""The format of a file is found by its name, and a file is written completely or not at all."""

from __future__ import annotations

import gzip
import os
import stat
import threading
from pathlib import Path

import pytest

from lowtide.documents.files.streams import format_of, reading_from, writing_to
from lowtide.errors import UsageError
from tests.support.patience import PATIENCE


@pytest.mark.parametrize(
    ("name", "given", "format"),
    [
        ("users.jsonl", None, "jsonl"),
        ("users.ndjson", None, "jsonl"),
        ("a/b.c/USERS.JSON", None, "json"),
        ("users.csv.gz", None, "csv"),
        ("users.parquet", None, "parquet"),
        ("-", None, "jsonl"),
        ("-", "csv", "csv"),
        ("users.txt", "json", "json"),
    ],
)
def test_the_name_says_the_format_unless_it_is_given(name: str, given: str | None, format: str) -> None:
    assert format_of(name, given) == format


@pytest.mark.parametrize(
    ("name", "given"), [("users", None), ("users.gz", None), ("users.xml", None), ("a.csv", "xml")]
)
def test_a_format_that_nobody_knows_is_refused(name: str, given: str | None) -> None:
    with pytest.raises(UsageError, match="jsonl, json, csv, parquet"):
        format_of(name, given)


def test_parquet_is_not_packed_twice() -> None:
    with pytest.raises(UsageError, match="already compressed"):
        format_of("users.parquet.gz", None)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_replaced_when_it_is_whole_and_keeps_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with writing_to(str(path)) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_what_fails_leaves_the_old_file_and_nothing_else(fault: type[BaseException], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")

    def write() -> None:
        with writing_to(str(path)) as stream:
            stream.write(b"new")
            raise fault

    with pytest.raises(fault):
        write()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == [name]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real" / "a.jsonl")
    with writing_to(str(tmp_path / "link.jsonl")) as stream:
        stream.write(b"new")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "real" / "a.jsonl").read_bytes() == b"new"


def test_a_packed_file_is_packed_and_unpacked_and_always_the_same(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with writing_to(str(tmp_path / name)) as stream:
            stream.write(b"new" * 1000)
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"new" * 1000
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    with reading_from(str(tmp_path / "a.gz")) as source:
        assert source.stream.read() == b"new" * 1000
        assert source.done() == source.size == (tmp_path / "a.gz").stat().st_size


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    with writing_to(str(path)) as stream:
        stream.write(b"new")
    reader.join(PATIENCE)
    assert read == [b"new"]
    assert names(tmp_path) == ["pipe"]


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"), writing_to(str(tmp_path)):
        pass
