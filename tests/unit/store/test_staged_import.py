"""A large import by several processes gives the same result and the same errors as the usual path."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.sharing.loading import bulk
from lowtide.sharing.loading.import_worker import FilePiece, stage_piece
from lowtide.sharing.loading.job import StagedFile
from lowtide.sharing.loading.staged import STAGING
from lowtide.store import staged_import
from lowtide.store.staged_import import import_staged, pieces_of
from lowtide.values.extended import dumps
from tests.unit.cli.commands import document, invoke

NUMBERS = list(range(300))
random.Random(7).shuffle(NUMBERS)
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": each, "text": "ü" * (each % 50), "deep": {"list": [each, {"x": None}]}, "at": each * 0.5, "n": each}
    for each in NUMBERS
]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_import, "LEAST_BYTES", 1)
    monkeypatch.setattr(staged_import, "PIECE", 5000)
    monkeypatch.setattr(staged_import, "MOST_WORKERS", 1)
    monkeypatch.setattr(staged_import, "DIRECT_ROWS", 1)
    monkeypatch.setattr(bulk, "DIRECT_ROWS", 1)


class InThisProcess:
    """Stands in for the workers, each of which spends most of its time on imports. It leaves out how they are started
    and what is sent to them, which does not depend on the documents."""

    def __init__(self, count: int) -> None:
        assert count > 0

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def staged(self, pieces: list[FilePiece]) -> Iterator[tuple[FilePiece, StagedFile | None]]:
        for piece in pieces:
            yield piece, stage_piece(piece)


@pytest.fixture(params=[0])
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many processes stage the pieces; 0 for none but this one."""
    monkeypatch.setattr(staged_import, "MOST_WORKERS", max(1, request.param))
    if not request.param:
        monkeypatch.setattr(staged_import, "_Workers", InThisProcess)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """What the fast way returned, each time that the command took it."""
    found: list[int | None] = []

    def noted(*arguments: Any) -> int | None:
        found.append(import_staged(*arguments))
        return found[-1]

    monkeypatch.setattr("lowtide.cli.transfer.import_staged", noted)
    return found


def lines_in(path: Path, documents: list[Any], end: bytes = b"\n") -> Path:
    lines = [each if isinstance(each, bytes) else dumps(each) for each in documents]
    path.write_bytes(b"\n".join(lines) + end)
    return path


def nothing(done: int, documents: int) -> None:
    """No progress is shown."""


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(("end", "workers"), [(b"\n", 2), (b"", 0), (b"\n\n  \n", 0)], indirect=["workers"])
def test_it_imports_what_the_usual_way_would(store: lowtide.Store, tmp_path: Path, end: bytes) -> None:
    file = lines_in(tmp_path / "file.jsonl", [b"\xef\xbb\xbf" + dumps(DOCUMENTS[0]), b"", *DOCUMENTS[1:]], end)
    told: list[tuple[int, int]] = []
    before = store.stats().last_commit
    assert import_staged(store, "c", file, lambda *both: told.append(both)) == len(DOCUMENTS)
    assert told == sorted(told)
    assert told[-1] == (file.stat().st_size, len(DOCUMENTS))
    assert list(store["c"].find({}, sort=[("_id", 1)])) == sorted(DOCUMENTS, key=lambda each: each["_id"])
    assert store.verify().ok
    changes = list(store.changes(before, keyspaces=["documents/c"]))
    assert len(changes) == len(DOCUMENTS)
    assert {change.kind for change in changes} == {"insert"}
    assert not list((store.path / STAGING).iterdir())


@pytest.mark.usefixtures("workers")
def test_documents_without_an_id_get_one(store: lowtide.Store, tmp_path: Path) -> None:
    file = lines_in(tmp_path / "file.jsonl", [{"n": each} for each in NUMBERS])
    assert import_staged(store, "c", file, nothing) == len(NUMBERS)
    assert sorted(each["n"] for each in store["c"].find()) == sorted(NUMBERS)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(("indexed", "workers"), [(False, 2), (True, 0)], indirect=["workers"])
def test_the_command_takes_it(tmp_path: Path, taken: list[int | None], indexed: bool) -> None:
    file = lines_in(tmp_path / "file.jsonl", DOCUMENTS)
    with lowtide.open(tmp_path / "store") as store:
        if indexed:
            store["c"].create_index("text")
    result = invoke("import", tmp_path / "store", "c", file, "--json")
    assert result.exit_code == 0, result.output
    assert (document(result)["imported"], document(result)["commits"]) == (300, 1)
    assert taken == [300]
    with lowtide.open(tmp_path / "store") as store:
        assert store["c"].count_documents({"text": ""}) == sum(not each["text"] for each in DOCUMENTS)
        assert store.verify().ok


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("wrong", "workers"),
    [
        (b'{"_id": 1000, "n": ', 1),
        (b"[1, 2]", 0),
        (b'{"_id": 1000, "$x": 1}', 0),
        (dumps({"_id": DOCUMENTS[0]["_id"]}), 1),
        (b'{"_id": 1000, "at": -1}', 0),
        (b'{"_id": {"$oid": 5}}', 0),
        (b'\xef\xbb\xbf{"_id": 1000}', 0),
    ],
    indirect=["workers"],
)
def test_an_error_is_that_of_the_usual_way_and_nothing_is_imported(
    tmp_path: Path, taken: list[int | None], monkeypatch: pytest.MonkeyPatch, wrong: bytes
) -> None:
    file = lines_in(tmp_path / "file.jsonl", [*DOCUMENTS[:200], wrong, *DOCUMENTS[200:]])
    errors = []
    for size in (1, 1 << 40):
        monkeypatch.setattr(staged_import, "LEAST_BYTES", size)
        with lowtide.open(tmp_path / f"store {size}") as store:
            store["c"].set_schema({"properties": {"at": {"minimum": 0}}})
        result = invoke("import", tmp_path / f"store {size}", "c", file)
        assert result.exit_code != 0
        errors.append(result.stderr)
        with lowtide.open(tmp_path / f"store {size}") as store:
            assert store["c"].count_documents({}) == 0
    assert errors[0] == errors[1]
    assert "line 201" in errors[0]
    assert taken == [None, None]


@pytest.mark.parametrize("more", [["--upsert"], ["--drop"], ["--batches", "50"], ["--id-field", "n"]])
def test_options_take_the_usual_way(tmp_path: Path, taken: list[int | None], more: list[str]) -> None:
    file = lines_in(tmp_path / "file.jsonl", DOCUMENTS)
    assert invoke("import", tmp_path / "store", "c", file, "--create", *more).exit_code == 0
    assert taken == []


def test_a_collection_with_documents_takes_the_usual_way(store: lowtide.Store, tmp_path: Path) -> None:
    store["c"].insert_one({"_id": 1000})
    assert import_staged(store, "c", lines_in(tmp_path / "file.jsonl", DOCUMENTS), nothing) is None
    assert store["c"].count_documents({}) == 1


def test_workers_that_cannot_work_leave_it_to_the_usual_way(
    store: lowtide.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert import_staged(store, "c", lines_in(tmp_path / "file.jsonl", DOCUMENTS), nothing) is None
    assert not list((store.path / STAGING).iterdir())


def test_a_file_that_changes_meanwhile_takes_the_usual_way(store: lowtide.Store, tmp_path: Path) -> None:
    file = lines_in(tmp_path / "file.jsonl", DOCUMENTS)

    def append(done: int, documents: int) -> None:
        with file.open("ab") as stream:
            stream.write(json.dumps({"_id": done + 10_000}).encode() + b"\n")

    assert import_staged(store, "c", file, append) is None
    assert store["c"].count_documents({}) == 0


def test_an_interrupt_leaves_nothing(store: lowtide.Store, tmp_path: Path) -> None:
    def interrupt(done: int, documents: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_staged(store, "c", lines_in(tmp_path / "file.jsonl", DOCUMENTS), interrupt)
    assert store["c"].count_documents({}) == 0
    assert not list((store.path / STAGING).iterdir())


def test_pieces_are_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_import, "PIECE", 7)
    for content in (b"", b"\n", b"1\n2\n3", b"a" * 30 + b"\n" + b"b\n" * 20):
        file = tmp_path / "file"
        file.write_bytes(content)
        pieces = [content[each.begin : each.end] for each in pieces_of(tmp_path, file)]
        assert b"".join(pieces) == content
        assert all(each.endswith(b"\n") for each in pieces[:-1])


def test_a_piece_is_staged_sorted(store: lowtide.Store, tmp_path: Path) -> None:
    file = lines_in(tmp_path / "file.jsonl", DOCUMENTS)
    staged = [stage_piece(each) for each in pieces_of(tmp_path, file)]
    assert len(staged) > 2
    assert sum(each.rows for each in staged if each is not None) == len(DOCUMENTS)
