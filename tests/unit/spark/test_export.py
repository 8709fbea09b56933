"""Exports: what is written, what is reported, and that an incomplete export is detected."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import lowtide
from lowtide.errors import CorruptionError, Error, UsageError
from lowtide.spark.export import MANIFEST, Manifest, export, read_export, read_manifest
from tests.support.parts import parts_of

NO_SESSION = cast(SparkSession, None)


@pytest.fixture
def store(store: lowtide.Store) -> lowtide.Store:
    store.collection("c").insert_many(
        [{"_id": n, "name": f"n{n}", "at": datetime(2026, 1, 1, tzinfo=UTC), "any": [n, "x"]} for n in range(50)]
    )
    return store


def rows(manifest: Manifest, dest: Path) -> list[dict[str, Any]]:
    return [row for file in manifest.files for row in pyarrow.parquet.read_table(dest / file.name).to_pylist()]


def test_an_export_has_its_documents_and_says_what_they_are(store: lowtide.Store, tmp_path: Path) -> None:
    dest = tmp_path / "deep" / "out"
    before = datetime.now(UTC)
    manifest = export(store.path, "c", dest, rows_per_file=20)
    found = rows(manifest, dest)
    assert [row["_id"] for row in found] == list(range(50))
    assert found[7] == {"_id": 7, "name": "n7", "at": datetime(2026, 1, 1, tzinfo=UTC), "any": ["7", '"x"']}
    assert manifest == read_manifest(dest) == read_manifest(f"file://{dest}")
    assert (manifest.rows, manifest.collection, manifest.path) == (50, "c", str(store.path))
    assert manifest.commit == store.stats().last_commit
    assert before.replace(microsecond=0) <= datetime.fromisoformat(manifest.time) <= datetime.now(UTC)
    assert StructType.fromJson(manifest.schema).names == ["_id", "name", "at", "any"]
    assert {each.name for each in dest.iterdir()} == {MANIFEST, *(file.name for file in manifest.files)}
    for file in manifest.files:
        data = (dest / file.name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.bytes, file.sha256)
        assert pyarrow.parquet.read_metadata(dest / file.name).num_rows == file.rows
    assert store.pins() == []


def test_files_have_about_as_many_rows_as_asked_for(
    store: lowtide.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lowtide.spark.snapshot.BATCH", 10)
    told: list[int] = []
    manifest = export(store.path, "c", tmp_path / "out", rows_per_file=20, progress=told.append)
    assert sum(file.rows for file in manifest.files) == 50
    assert all(20 <= file.rows < 30 for file in manifest.files[:-1])
    assert told == sorted(told)
    assert told[-1] == 50
    with pytest.raises(UsageError, match="rows_per_file must be at least 1, not 0"):
        export(store.path, "c", tmp_path / "other", rows_per_file=0)


def test_columns_filter_schema_and_instant_are_those_of_a_read(store: lowtide.Store, tmp_path: Path) -> None:
    pin = store.pin("p")
    store.collection("c").delete_many({})
    manifest = export(store.path, "c", tmp_path / "a", as_of="p", columns=["name", "_id"], filter={"_id": {"$lt": 2}})
    assert rows(manifest, tmp_path / "a") == [{"name": "n0", "_id": 0}, {"name": "n1", "_id": 1}]
    assert manifest.commit == pin.ts
    schema = StructType([StructField("_id", LongType())])
    assert len(rows(export(store.path, "c", tmp_path / "b", as_of=pin.ts, schema=schema), tmp_path / "b")) == 50
    assert [each.name for each in store.pins()] == ["p"]


def test_a_schema_is_a_struct_type(store: lowtide.Store, tmp_path: Path) -> None:
    """There may be no session that could parse any other."""
    with pytest.raises(UsageError, match="schema must be a StructType, not '_id long'"):
        export(store.path, "c", tmp_path / "out", schema=cast(StructType, "_id long"))
    assert not (tmp_path / "out").exists()
    assert store.pins() == []


def test_a_collection_without_documents_is_one_file_without_rows(store: lowtide.Store, tmp_path: Path) -> None:
    store.collection("empty").create_index("a")
    manifest = export(store.path, "empty", tmp_path / "out")
    assert (manifest.rows, [file.rows for file in manifest.files]) == (0, [0])
    assert pyarrow.parquet.read_schema(tmp_path / "out" / manifest.files[0].name).names == ["_id"]


def test_only_a_new_or_empty_directory_is_taken(store: lowtide.Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    export(store.path, "c", tmp_path / "empty")
    with pytest.raises(UsageError, match="is not empty; export to a new or empty directory"):
        export(store.path, "c", tmp_path / "empty")
    (tmp_path / "file").write_text("x")
    with pytest.raises((UsageError, OSError)):
        export(store.path, "c", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x"


def test_what_does_not_fit_leaves_no_export_and_no_pin(store: lowtide.Store, tmp_path: Path) -> None:
    schema = StructType([StructField("name", LongType())])
    with pytest.raises(Error, match="_id 0, field 'name'"):
        export(store.path, "c", tmp_path / "out", schema=schema)
    with pytest.raises(UsageError, match=r"_lowtide_manifest\.json is missing"):
        read_manifest(tmp_path / "out")
    assert store.pins() == []


def test_a_kill_in_mid_export_leaves_no_manifest_and_no_pin(store: lowtide.Store, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from lowtide.spark.export import export\n"
        "export(sys.argv[1], 'c', sys.argv[2], progress=lambda rows: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, store.path, tmp_path / "out"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path / "out") == ["part-00000.parquet"]
    with pytest.raises(UsageError, match="is not a complete export"):
        read_export(NO_SESSION, tmp_path / "out")
    parts_of(store).pinning.expire()
    assert [pin.name for pin in store.pins() if pin.name.startswith("spark ")] == []


@pytest.mark.parametrize("harm", ["missing", "short"])
def test_a_file_that_is_not_the_one_that_was_written_is_noticed(
    store: lowtide.Store, tmp_path: Path, harm: str
) -> None:
    manifest = export(store.path, "c", tmp_path / "out")
    file = tmp_path / "out" / manifest.files[0].name
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match=rf"{file}: is not the file of \d+ bytes that the manifest names"):
        read_export(NO_SESSION, tmp_path / "out")


def test_a_manifest_of_another_kind_is_refused(store: lowtide.Store, tmp_path: Path) -> None:
    manifest = export(store.path, "c", tmp_path / "out")
    later = msgspec.structs.replace(manifest, format=2)
    (tmp_path / "out" / MANIFEST).write_bytes(msgspec.json.encode(later))
    with pytest.raises(UsageError, match="is an export of format 2; this release reads 1"):
        read_manifest(tmp_path / "out")
    (tmp_path / "out" / MANIFEST).write_bytes(b"{")
    with pytest.raises(CorruptionError, match="cannot be understood"):
        read_manifest(tmp_path / "out")


def test_a_place_that_cannot_be_reached_is_said(store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match="cannot reach nowhere://x"):
        export(store.path, "c", "nowhere://x")
