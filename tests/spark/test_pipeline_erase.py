"""Erasure removes a document from the whole history and from the disk, keeps all others, and proves it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lowtide
from lowtide import pipeline
from lowtide.pipeline.errors import ArchiveError, ConflictingRun
from lowtide.pipeline.tables.columns import DELETE, INSERT
from lowtide.pipeline.tables.ledger import ERASE
from lowtide.pipeline.tables.writer import VersionRows
from lowtide.values.codec import encode_document
from lowtide.values.ids import id_key
from tests.conftest import OpenStore
from tests.spark.chains import HOUR, START, Chains

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "a-very-personal-name"


def files_with(folder: Path, *wanted: bytes) -> list[str]:
    """The files below a directory that have one of these, as it is."""
    found = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    return [each.name for each in found if any(text in each.read_bytes() for text in wanted)]


def write(chains: Chains, *versions: str) -> None:
    """Append versions of the secret document, and of none other, each in a run of its own."""
    for kind in versions:
        rows = VersionRows()
        chains.states.append(chains.states[-1])
        document = None if kind == DELETE else encode_document({"_id": SECRET, "n": chains.last})
        rows.add(kind, chains.last, START + chains.last * HOUR, id_key(SECRET), document)
        chains.append(rows)
        chains.ledger.add("run", application=("lowtide-run", chains.last), since=chains.last - 1, until=chains.last)


def test_nothing_of_a_document_is_left_and_all_others_are(spark: SparkSession, tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=1)
    chains.run(10)
    write(chains, INSERT, "update")
    pipeline.compact(spark, chains.path)
    write(chains, DELETE)
    chains.run(3)
    key = id_key(SECRET)
    assert files_with(chains.path, key.hex().encode(), SECRET.encode())
    report = pipeline.erase(spark, chains.path, "items", SECRET)
    assert (report.versions, report.verified) == (3, True)
    assert report.tables["collections/items"].commits == (11, 12, 13)
    # Compressed pages cannot be searched as text, but the log, the names and the statistics in files can.
    assert files_with(chains.path, key.hex().encode(), SECRET.encode()) == []
    chains.check(spark, [10, 12, 13, chains.last])
    assert (chains.now().archived, chains.now().compacted) == (chains.last, 12)

    # The proof tells its holder which document it was; the ledger does not.
    proof = json.loads(json.dumps(report.to_dict()))
    digest = hashlib.sha256(bytes.fromhex(proof["salt"]) + b"items\0" + key).hexdigest()
    assert digest == proof["digest"]
    assert report.is_of(SECRET)
    assert not report.is_of("another")
    kept = chains.ledger.of(ERASE)[0].detail["proof"]
    assert kept == {**proof, "salt": ""}
    folder = Path(chains.now().location.root)
    for name, sha256 in report.tables["collections/items"].added.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    assert not any((folder / name).exists() for name in report.tables["collections/items"].deleted)
    assert pipeline.erase(spark, chains.path, "items", SECRET).versions == 0
    # The table goes on.
    chains.run(2)
    chains.check(spark, [chains.last])


def test_nothing_of_a_key_of_a_keyspace_is_left(spark: SparkSession, open_store: OpenStore, tmp_path: Path) -> None:
    store, archive, key = open_store("shop"), tmp_path / "archive", SECRET.encode()
    sessions = store.keyspace("sessions")
    sessions.put_many({key: b"1", b"other": b"1"})
    sessions.put(key, b"2")
    pipeline.archive(spark, store.path, archive)
    with pytest.raises(ArchiveError, match="still has the key"):
        pipeline.erase(spark, archive, None, key, keyspace="sessions")
    sessions.delete(key)
    pipeline.archive(spark, store.path, archive)
    report = pipeline.erase(spark, archive, None, key, keyspace="sessions")
    assert (report.versions, report.verified, report.is_of(key), report.is_of(b"other")) == (3, True, True, False)
    assert files_with(archive, key.hex().encode(), key) == []
    history = pipeline.history(spark, archive, keyspace="sessions").collect()
    assert [bytes(row["_id"]) for row in history] == [b"other"]
    with pytest.raises(lowtide.UsageError, match="and not both"):
        pipeline.erase(spark, archive, "sessions", key, keyspace="sessions")


def test_files_that_wait_for_their_grace_period_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=2)
    chains.run(3)
    write(chains, INSERT, DELETE)
    before = {each.name for each in chains.now().files}
    pipeline.compact(spark, chains.path)
    report = pipeline.erase(spark, chains.path, "items", SECRET).tables["collections/items"]
    assert len(set(report.deleted) & before) == 2  # the runs that have it; the first one does not
    assert report.files_found == report.log_files_found == 0


def test_a_document_that_still_exists_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=3)
    chains.run(3)
    write(chains, INSERT)
    with pytest.raises(ArchiveError, match="Delete it in the store, archive that, and erase it then"):
        pipeline.erase(spark, chains.path, "items", SECRET)
    assert pipeline.erase(spark, chains.path, "items", SECRET, even_if_current=True).versions == 1
    with pytest.raises(ArchiveError, match="has no collection 'other'"):
        pipeline.erase(spark, chains.path, "other", SECRET)


def test_files_of_a_run_under_way_are_not_touched(spark: SparkSession, tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=4)
    chains.run(3)
    write(chains, INSERT, DELETE)
    folder = Path(chains.now().location.root)
    unpublished = folder / "tail-ffff.parquet"
    unpublished.write_bytes(b"PAR1 half a file")
    with pytest.raises(ConflictingRun, match="a run is under way, or was killed"):
        pipeline.erase(spark, chains.path, "items", SECRET)
    assert pipeline.erase(spark, chains.path, "items", SECRET, remove_unpublished=True).verified
    assert not unpublished.exists()


def test_what_a_rename_left_under_the_former_name_is_told(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    store, archive = open_store("shop"), tmp_path / "archive"
    store.collection("users").insert_many([{"_id": SECRET}, {"_id": "another"}])
    store.collection("others").insert_one({"_id": "another"})
    store.collection("users").rename("people")
    store.collection("people").delete_one({"_id": SECRET})
    pipeline.archive(spark, store.path, archive)
    report = pipeline.erase(spark, archive, "people", SECRET)
    assert (report.elsewhere, report.to_dict()["elsewhere"]) == (("users",), ["users"])
    assert pipeline.erase(spark, archive, "users", SECRET).elsewhere == ()
    assert files_with(archive, id_key(SECRET).hex().encode(), SECRET.encode()) == []


def test_what_a_restored_store_has_undone_is_erased_too(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    store, archive, backup = open_store("shop"), tmp_path / "archive", tmp_path / "backup"
    store.collection("users").insert_one({"_id": "kept"})
    pipeline.archive(spark, store.path, archive)
    store.backup(backup)
    store.collection("users").insert_one({"_id": SECRET})
    pipeline.archive(spark, store.path, archive)
    store.close()
    with lowtide.open(backup) as restored:
        restored.collection("users").insert_one({"_id": "other"})
        pipeline.archive(spark, restored.path, archive)
        report = pipeline.erase(spark, archive, "users", SECRET)
    assert {name: each.versions for name, each in report.tables.items()} == {
        "collections/users": 0,
        "lost/1/collections/users": 1,
    }
    assert files_with(archive, id_key(SECRET).hex().encode(), SECRET.encode()) == []
