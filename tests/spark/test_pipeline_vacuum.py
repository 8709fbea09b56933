"""A vacuum removes what no retained instant sees, and nothing else, whatever runs concurrently."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from lowtide import pipeline
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.garbage.prune import prune
from lowtide.engine.versions.chain import chain_of, versions_of
from lowtide.errors import UsageError
from lowtide.pipeline.archive.timeline import split
from lowtide.pipeline.errors import ArchiveError, ArchiveGap
from lowtide.pipeline.tables.columns import DELETE, KEY, KIND, VALID_TO, VERSION
from lowtide.pipeline.tables.ledger import VACUUM
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at
from lowtide.pipeline.tables.names import COLLECTIONS, TableName
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.travel.local import reader_of
from lowtide.pipeline.travel.retention import Survivors, retained
from lowtide.pipeline.vacuum.vacuum import stays_column
from tests.conftest import OpenStore
from tests.spark.chains import Chains

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The package has a function of the same name.
vacuuming: Any = import_module("lowtide.pipeline.vacuum.vacuum")


def versions_in(chains: Chains) -> set[tuple[str, int]]:
    """The versions that are not deletes, in the table's files."""
    table = chains.now()
    rows = [
        row
        for each in table.files
        for row in pq.read_table(f"{table.location.root}/{each.name}", columns=[KEY, VERSION, KIND]).to_pylist()
    ]
    return {(row[KEY], row[VERSION]) for row in rows if row[KIND] != DELETE}


def seen_by(chains: Chains, commits: set[int]) -> set[tuple[str, int]]:
    """The versions that these commits see, by the model."""
    found = set()
    for key in {key for state in chains.states for key in state}:
        began, known = 0, None
        for commit, state in enumerate(chains.states):
            if state.get(key) != known:
                began, known = commit, state.get(key)
            if known is not None and commit in commits:
                found.add((key, began))
    return found


def test_what_a_retained_instant_sees_stays_and_all_else_goes(spark: SparkSession, tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=1)
    chains.run(30)
    pipeline.compact(spark, chains.path)
    chains.run(10)
    pipeline.tag(chains.path, "release", 7)
    now = chains.at(40)  # day 1 ends with commit 23
    plan = pipeline.vacuum(spark, chains.path, "10h, daily", dry_run=True, now=now)
    assert (plan.floor, plan.instants) == (30, (7, 23, 30))
    assert (len(chains.ledger.of(VACUUM)), len(versions_in(chains))) == (0, len(seen_by(chains, set(range(41)))))

    report = pipeline.vacuum(spark, chains.path, "10h, daily", now=now)
    assert (report.kept, report.dropped, report.instants) == (plan.kept, plan.dropped, plan.instants)
    assert report.dropped > 0
    instants = {7, 23, *range(30, 41)}
    assert versions_in(chains) == seen_by(chains, instants)
    chains.check(spark, instants)
    # A time means the last commit at or before it, if that one is there still.
    tables = reader_of(chains.path)
    assert [tables.instant(chains.at(at), "") for at in (7, 7.5, 23.5, 30, 34.5)] == [7, 7, 23, 30, 34]
    with pytest.raises(ArchiveGap, match=r"no longer has the last commit at .* commit 7 and commit 23"):
        tables.instant(chains.at(12.5), "")
    assert report.to_dict()["tables"]["collections/items"]["kept"] == report.kept

    pipeline.untag(chains.path, "release")
    chains.run(30)
    again = pipeline.vacuum(spark, chains.path, {"all": timedelta(hours=5)}, now=chains.at(70))
    assert (again.floor, again.instants) == (65, (65,))
    assert versions_in(chains) == seen_by(chains, set(range(65, 71)))
    chains.check(spark, [65, 70])
    assert pipeline.vacuum(spark, chains.path, "5h", now=chains.at(70)).dropped == 0


def test_the_expression_agrees_with_the_engines_rule(spark: SparkSession) -> None:
    rng = random.Random(3)
    instants, floor = tuple(sorted(rng.sample(range(100), 5))), 70
    rows, expected = [], set()
    for key in range(300):
        begins = sorted(rng.sample(range(1, 100), rng.randrange(1, 9)))
        rows += [(key, begin, end) for begin, end in zip(begins, [*begins[1:], None], strict=True)]
        chain = chain_of([(begin, b"") for begin in reversed(begins)])
        assert chain is not None
        expected |= {(key, ts) for ts, _ in versions_of(prune(chain, Exact(instants, floor)))}
    frame = spark.createDataFrame(rows, f"key int, {VERSION} long, {VALID_TO} long")
    found = frame.where(stays_column(Survivors(instants, floor))).select("key", VERSION).collect()
    assert {tuple(row) for row in found} == expected
    assert len(found) == len(expected) < len(rows)


def test_a_vacuum_killed_before_versions_go_is_finished_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = Chains(tmp_path / "archive", seed=4)
    chains.run(20)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(VersionTable, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            pipeline.vacuum(spark, chains.path, [5], now=chains.at(20))
    # Readers know already what goes, and everything is there still.
    assert not retained(chains.ledger.entries).has(4)
    assert versions_in(chains) == seen_by(chains, set(range(21)))
    pipeline.vacuum(spark, chains.path, [5], now=chains.at(20))
    assert versions_in(chains) == seen_by(chains, {5, 20})
    assert len(chains.ledger.of(VACUUM)) == 1
    with pytest.raises(ArchiveError, match=r"no longer has commit 4.*commit 5"):
        pipeline.tag(chains.path, "late", 4)


def test_runs_and_compactions_beside_a_vacuum_lose_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = Chains(tmp_path / "archive", seed=5)
    chains.run(20)
    told = vacuuming.rewrite
    beside: list[Callable[[], object]] = [
        lambda: pipeline.compact(spark, chains.path, force=True),
        lambda: chains.run(5),
    ]

    def then(*args: object) -> object:
        found = told(*args)
        if beside:
            beside.pop()()
        return found

    monkeypatch.setattr(vacuuming, "rewrite", then)
    report = pipeline.vacuum(spark, chains.path, "5h", now=chains.at(20))
    assert report.floor == 15
    assert versions_in(chains) == seen_by(chains, set(range(15, 26)))
    chains.check(spark, range(15, 26))


def test_a_reader_of_an_older_version_is_not_disturbed_within_the_grace_period(
    spark: SparkSession, tmp_path: Path
) -> None:
    chains = Chains(tmp_path / "archive", seed=6)
    chains.run(20)
    pipeline.compact(spark, chains.path)
    reader = chains.now()
    assert reader.files
    assert pipeline.vacuum(spark, chains.path, "1h", now=chains.at(20)).files_removed == 0
    assert chains.seen(spark, [3, 20], reader) == {3: chains.states[3], 20: chains.states[20]}
    # A young file that no table names may be that of a run; after the grace period the reader's files go.
    unpublished = Path(reader.location.root) / "tail-ffff.parquet"
    unpublished.touch()
    assert pipeline.vacuum(spark, chains.path, "1h", now=chains.at(20), grace=timedelta(0)).files_removed > 0
    assert unpublished.exists()
    assert {each.name for each in Path(reader.location.root).iterdir() if each.suffix == ".parquet"} == {
        unpublished.name,
        *(each.name for each in chains.now().files),
    }


def test_what_a_restored_store_has_undone_goes_and_deletes_stay_deletes(spark: SparkSession, tmp_path: Path) -> None:
    """The store goes back to commit 16, which a vacuum has kept: versions that ended later are current again, and those
    whose deletes the vacuum removed are not."""
    chains = Chains(tmp_path / "archive", seed=8)
    chains.run(20)
    pipeline.vacuum(spark, chains.path, [12, 16], now=chains.at(20))
    chains.run(5)
    table = chains.now()
    split(spark, table, Location.of(chains.path) / "lost/1/collections", TableName(COLLECTIONS, "items"), 16)
    assert chains.seen(spark, [12, 16, 99]) == {12: chains.states[12], 16: chains.states[16], 99: chains.states[16]}
    assert (chains.now().archived, chains.now().compacted) == (16, 16)
    moved = table_at(Location.of(chains.path) / "lost/1", TableName(COLLECTIONS, "items"))
    assert {each.first_version > 16 for each in moved.files} == {True}


def test_a_pin_of_the_store_holds_what_it_sees(spark: SparkSession, open_store: OpenStore, tmp_path: Path) -> None:
    store, archive = open_store("shop"), tmp_path / "archive"
    users = store.collection("users")
    users.create_index("n")
    users.drop_index("n_1")
    users.insert_one({"_id": 1, "n": 0})
    pin = store.pin("report", ttl=3600)
    for number in range(1, 4):
        users.replace_one({"_id": 1}, {"_id": 1, "n": number})
    assert pipeline.archive(spark, store.path, archive).rows == 4  # what the catalog says of indexes does not count
    plans = [
        pipeline.vacuum(spark, archive, timedelta(0), dry_run=True, store_path=path) for path in (None, store.path)
    ]
    assert [(each.kept, each.dropped) for each in plans] == [(1, 3), (2, 2)]
    assert pin.ts > 0


@pytest.mark.parametrize("grace", [timedelta(-1), 7])
def test_a_wrong_grace_period_is_refused(spark: SparkSession, tmp_path: Path, grace: Any) -> None:
    with pytest.raises(UsageError, match="grace is a timedelta"):
        pipeline.vacuum(spark, tmp_path, "7d", grace=grace)


def test_tags_can_be_listed_moved_and_taken_back(tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=7)
    chains.run(5)
    assert pipeline.tag(chains.path, "b") == 5
    pipeline.tag(chains.path, "a", 2)
    pipeline.tag(chains.path, "a", 3)
    assert pipeline.tags(chains.path) == {"a": 3, "b": 5}
    pipeline.untag(chains.path, "b")
    assert pipeline.tags(chains.path) == {"a": 3}
    with pytest.raises(ArchiveError, match=r"there is no tag 'b' in .*; there are: a"):
        pipeline.untag(chains.path, "b")
    with pytest.raises(ArchiveError, match="has not reached commit 6"):
        pipeline.tag(chains.path, "c", 6)
