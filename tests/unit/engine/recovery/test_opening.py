"""Opening a directory: which may become a store, which is one, and which is left from an unfinished creation (K5)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.engine.log.segment import segment_path
from lowtide.engine.recovery.opening import MANIFEST, check_directory, open_files
from lowtide.options import Options
from tests.unit.engine.log.logs import STORE, segment_bytes_of

OPTIONS = Options(segment_bytes=4096, map_size=1 << 20)


def make(path: Path) -> str:
    """Open or make the store in ``path``, close it, and return the case."""
    path.mkdir(exist_ok=True)
    opened = open_files(path, OPTIONS)
    opened.log.close()
    opened.base.close()
    return opened.case


def test_a_new_store_has_a_manifest_a_base_and_a_log(tmp_path: Path) -> None:
    assert make(tmp_path / "store") == "fresh"
    names = {str(path.relative_to(tmp_path / "store")) for path in (tmp_path / "store").rglob("*")}
    in_base = {"base/data.mdb", "base/lock.mdb", "base/readers.lock"}
    assert names == {"store.json", "base", *in_base, "log", "log/0000000001.log"}
    manifest = json.loads((tmp_path / "store" / MANIFEST).read_text())
    assert manifest["format"] == 2
    assert len(bytes.fromhex(manifest["store"])) == 16
    assert make(tmp_path / "store") == "clean"


def test_two_stores_have_different_identities(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b")
    assert (tmp_path / "a" / MANIFEST).read_text() != (tmp_path / "b" / MANIFEST).read_text()


def test_a_file_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(lowtide.UsageError, match="is a file"):
        check_directory(tmp_path / "file")


def test_a_directory_with_other_things_does_not_become_a_store(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").touch()
    with pytest.raises(lowtide.UsageError, match=r"letters\.txt"):
        lowtide.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


def test_a_store_may_hold_other_files_beside_its_own(tmp_path: Path) -> None:
    make(tmp_path / "store")
    (tmp_path / "store" / "notes.txt").touch()
    with lowtide.open(tmp_path / "store"):
        pass


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=80), st.text(max_size=80).map(str.encode), st.sampled_from([b"[]", b"1", b'{"format": 1}'])
    )
)
def test_a_manifest_that_cannot_be_understood_is_refused_and_named(tmp_path: Path, content: bytes) -> None:
    store = tmp_path / "store"
    if not store.exists():
        make(store)
    (store / MANIFEST).write_bytes(content)
    with pytest.raises(lowtide.CorruptionError, match=r"store\.json"):
        open_files(store, OPTIONS)


@pytest.mark.parametrize(
    ("version", "told"), [(0, "older"), (3, "newer"), (99, "newer"), ("two", "newer"), (None, "newer")]
)
def test_another_format_is_refused_with_advice(tmp_path: Path, version: object, told: str) -> None:
    make(tmp_path / "store")
    manifest = tmp_path / "store" / MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": version}))
    with pytest.raises(lowtide.UsageError, match=f"{told} format.*open it with the release that wrote it"):
        open_files(tmp_path / "store", OPTIONS)


# What is left of a store whose making was cut short


def half_made(path: Path, *, base: bytes | None = b"", segments: tuple[bytes, ...] = ()) -> Path:
    (path / "log").mkdir(parents=True)
    if base is not None:
        (path / "base").mkdir()
        (path / "base" / "data.mdb").write_bytes(base)
    for sequence, content in enumerate(segments, 1):
        segment_path(path / "log", sequence).write_bytes(content)
    return path


def test_a_store_that_was_never_finished_is_made_anew(tmp_path: Path) -> None:
    lost = (
        half_made(tmp_path / "a"),
        half_made(tmp_path / "b", base=None),
        half_made(tmp_path / "c", segments=(b"",)),
        half_made(tmp_path / "d", segments=(segment_bytes_of([]),)),
        half_made(tmp_path / "e", base=bytes(8192)),
        half_made(tmp_path / "f", base=b"half a page", segments=(bytes(4096),)),
    )
    for path in lost:
        assert make(path) == "half-made"
        assert make(path) == "clean"


def test_a_half_written_manifest_beside_its_place_is_no_manifest(tmp_path: Path) -> None:
    path = half_made(tmp_path / "store")
    (path / (MANIFEST + ".tmp")).write_text('{"form')
    check_directory(path)
    assert make(path) == "half-made"


def test_a_store_that_lost_its_manifest_is_not_taken_for_half_made(tmp_path: Path) -> None:
    released = segment_bytes_of([], sequence=3, first_ts=9)
    for content in (segment_bytes_of([b"a commit"], store=STORE), released):
        path = half_made(tmp_path / str(len(content.rstrip(b"\x00"))), segments=(content,))
        before = sorted((each, each.read_bytes()) for each in path.rglob("*") if each.is_file())
        with pytest.raises(lowtide.CorruptionError, match=r"store\.json is missing"):
            make(path)
        assert sorted((each, each.read_bytes()) for each in path.rglob("*") if each.is_file()) == before


def test_a_store_that_lost_its_manifest_and_its_log_is_not_taken_for_half_made(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store") as store:
        store.keyspace("k").put(b"key", b"value")
    (tmp_path / "store" / MANIFEST).unlink()
    shutil.rmtree(tmp_path / "store" / "log")
    (tmp_path / "store" / "log").mkdir()
    with pytest.raises(lowtide.CorruptionError, match="the base holds commits"):
        make(tmp_path / "store")
