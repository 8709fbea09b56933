"""The instant of a read: which commit is meant, and which pin holds it."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

import lowtide
import lowtide.spark
from lowtide.errors import SnapshotExpired, UsageError
from lowtide.spark.load_pin import release, take
from lowtide.spark.options import SparkOptions
from tests.conftest import OpenStore
from tests.unit.spark.loading import Load

SCHEMA = StructType([StructField("_id", LongType()), StructField("v", LongType())])


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    store = open_store(monitor_interval=3600)
    for name in ("c", "d"):
        store.collection(name).insert_one({"_id": 1, "v": 1})
    return store


def write(store: lowtide.Store, value: int) -> None:
    with store.transaction() as tx:
        for name in ("c", "d"):
            tx.collection(name).update_one({"_id": 1}, {"$set": {"v": value}})
    store.checkpoint()
    store.collect_garbage()


def value(store: lowtide.Store, collection: str = "c", **options: Any) -> Any:
    (row,) = Load(store.path, SCHEMA, collection=collection, **options).rows()
    return row["v"]


def options(store: lowtide.Store, **given: Any) -> SparkOptions:
    return SparkOptions(
        {"path": str(store.path), "collection": "c", **{name: str(each) for name, each in given.items()}}
    )


def test_the_last_commit_is_read_unless_another_is_named(store: lowtide.Store) -> None:
    write(store, 2)
    assert value(store) == 2
    write(store, 3)
    assert value(store) == 3


def test_a_pin_is_read_by_its_name(store: lowtide.Store) -> None:
    store.pin("before the change")
    write(store, 2)
    assert value(store, asOf="before the change") == 1
    assert value(store, asOf=" before the change ") == 1


@pytest.mark.parametrize("name", ["asOf", "versionAsOf"])
def test_or_by_its_timestamp(store: lowtide.Store, name: str) -> None:
    pin = store.pin("p")
    write(store, 2)
    assert value(store, "c", **{name: pin.ts}) == 1


def test_a_name_of_digits_goes_before_a_timestamp(store: lowtide.Store) -> None:
    write(store, 2)
    pin = store.pin("1")
    write(store, 3)
    assert pin.ts != 1
    assert value(store, asOf="1") == 2


def test_two_reads_of_one_instant_agree_while_the_owner_writes(store: lowtide.Store) -> None:
    store.pin("p")
    seen = []
    for number in range(2, 5):
        seen += [value(store, "c", asOf="p"), value(store, "d", asOf="p")]
        write(store, number)
    assert seen == [1] * 6


def test_what_a_data_frame_holds_can_be_named_and_outlives_the_other_pin(store: lowtide.Store) -> None:
    store.pin("p")
    write(store, 2)
    load = Load(store.path, SCHEMA, collection="c", asOf="p")
    store.unpin("p")
    write(store, 3)
    assert [row["v"] for row in load.rows()] == [1]


def test_a_timestamp_is_found_with_whichever_pin_holds_the_collection(store: lowtide.Store) -> None:
    """Each DataFrame pins its own collection only."""
    first, second = take(options(store)), take(options(store, collection="d"))
    assert first.ts == second.ts
    write(store, 2)
    assert value(store, "c", asOf=first.ts) == value(store, "d", asOf=first.ts) == 1


def test_the_last_commit_needs_nobody_to_hold_it(store: lowtide.Store) -> None:
    write(store, 2)
    assert value(store, versionAsOf=store.stats().last_commit) == 2


@pytest.mark.parametrize("at", [1, 2])
def test_what_nobody_holds_is_refused_with_what_can_be_read(store: lowtide.Store, at: int) -> None:
    write(store, 2)
    write(store, 3)
    store.pin("mine")
    write(store, 4)
    with pytest.raises(
        SnapshotExpired, match=rf"commit {at} is no longer kept.*the pins are 'mine' \(commit \d+, taken "
    ):
        value(store, asOf=at)


def test_a_commit_to_come_is_refused(store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match="commit 99 does not exist yet"):
        value(store, versionAsOf=99)


def test_what_is_no_instant_is_refused_with_those_there_are(store: lowtide.Store) -> None:
    store.pin("mine")
    for number in range(15):
        write(store, number)
        take(options(store))
    with pytest.raises(UsageError, match=r"the name of a pin, .*, not 'nine'; the pins are 'mine' .* and \d+ more"):
        value(store, asOf="nine")
    with pytest.raises(UsageError, match="'versionAsOf' is a whole number from 0 on, not 'mine'"):
        value(store, versionAsOf="mine")
    with pytest.raises(UsageError, match="'timestampAsOf' is an ISO time"):
        value(store, timestampAsOf="mine")


@pytest.mark.parametrize("second", ["versionAsOf", "timestampAsOf"])
def test_the_instant_is_said_once(store: lowtide.Store, second: str) -> None:
    with pytest.raises(UsageError, match=f"options 'asOf' and '{second}' mean the same"):
        value(store, asOf="1", **{second: "1"})


def test_a_time_of_day_is_the_last_commit_before_it(store: lowtide.Store) -> None:
    store.pin("p")
    now = datetime.now(UTC)
    assert value(store, timestampAsOf=now.isoformat()) == 1
    with pytest.raises(SnapshotExpired):
        value(store, timestampAsOf="2001-01-01")


@pytest.mark.parametrize("name", ["asOf", "timestampAsOf"])
def test_a_time_to_come_is_refused(store: lowtide.Store, name: str) -> None:
    """Two reads as of it would not agree: there may be commits in between."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(UsageError, match=f"option '{name}' lies in the future"):
        value(store, "c", **{name: tomorrow.isoformat()})
    assert store.pins() == []


def test_a_pin_of_other_keyspaces_is_refused_in_words(store: lowtide.Store) -> None:
    store.pin("d only", keyspaces=store.collection("d").keyspaces())
    write(store, 2)
    assert value(store, "d", asOf="d only") == 1
    with pytest.raises(UsageError, match=r"reads a pin of .*'documents/d' only, not of keyspace 'documents/c'"):
        value(store, "c", asOf="d only")


def test_the_pin_holds_what_is_read_and_nothing_else(store: lowtide.Store) -> None:
    store.collection("c").create_index("v")
    take(options(store, pinTtl=90), os.getpid())
    (pin,) = [pin for pin in store.pins() if pin.name.startswith("spark ")]
    assert set(pin.keyspaces or ()) == set(store.collection("c").keyspaces())
    assert 80 < pin.expires - pin.taken <= 90


def test_a_keyspace_is_pinned_by_its_name(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"x", b"1")
    pin = take(SparkOptions({"path": str(store.path), "keyspace": "k"}))
    assert [each.keyspaces for each in store.pins() if each.name == pin.name] == [("k",)]


def pins_of_spark(store: lowtide.Store) -> list[str]:
    return [pin.name for pin in store.pins() if pin.name.startswith("spark ")]


def test_loads_of_one_commit_and_one_driver_share_a_pin_that_goes_with_the_last(store: lowtide.Store) -> None:
    loads = [take(options(store)) for _ in range(5)] + [take(options(store, collection="d"))]
    (name,) = pins_of_spark(store)
    assert {load.name for load in loads} == {name}
    (pin,) = store.pins()
    assert set(pin.keyspaces or ()) == {*store["c"].keyspaces(), *store["d"].keyspaces()}
    for load in loads[:-1]:
        release(store.path, load)
        assert pins_of_spark(store) == [name]
    release(store.path, loads[0])
    assert pins_of_spark(store) == [name], "to give up twice takes nothing from others"
    write(store, 2)
    assert store.stats().history > 0
    release(store.path, loads[-1])
    assert pins_of_spark(store) == []
    store.collect_garbage()
    assert store.stats().history == 0


def test_what_a_shared_pin_came_to_hold_is_read_there(store: lowtide.Store) -> None:
    first = Load(store.path, SCHEMA, collection="c")
    second = Load(store.path, SCHEMA, collection="d")
    assert len(pins_of_spark(store)) == 1
    write(store, 2)
    assert [row["v"] for row in (*first.rows(), *second.rows())] == [1, 1]


def test_another_commit_or_another_driver_has_a_pin_of_its_own(store: lowtide.Store) -> None:
    first, other = take(options(store)), take(options(store), os.getpid())
    write(store, 2)
    later = take(options(store))
    assert len({first.name, other.name, later.name}) == 3
    assert (first.ts, first.ts) == (other.ts, later.ts - 1)


def test_loads_as_of_a_pin_share_one_beside_it(store: lowtide.Store) -> None:
    store.pin("p")
    write(store, 2)
    for _ in range(5):
        assert value(store, asOf="p") == value(store, "d", asOf="p") == 1
    assert len(pins_of_spark(store)) == 1


def test_loads_in_a_block_have_a_part_in_its_pin_which_is_left_to_them(store: lowtide.Store) -> None:
    with lowtide.spark.pinned(store.path) as name:
        write(store, 2)
        loads = [Load(store.path, SCHEMA, collection=each, asOf=name) for each in ("c", "d", "c")]
        assert [row["v"] for load in loads for row in load.rows()] == [1, 1, 1]
        gone = take(options(store, asOf=name))
        release(store.path, gone)
        assert pins_of_spark(store) == [name]
    (left,) = pins_of_spark(store)
    assert left != name
    write(store, 3)
    assert [row["v"] for load in loads for row in load.rows()] == [1, 1, 1]


def test_the_pin_of_a_block_without_loads_ends_with_it(store: lowtide.Store) -> None:
    with lowtide.spark.pinned(store.path) as name:
        release(store.path, take(options(store, asOf=name)))
        assert pins_of_spark(store) == [name], "the block goes on"
    assert store.pins() == []


def test_a_load_that_is_planned_again_has_the_instant_that_it_had(store: lowtide.Store) -> None:
    first = take(options(store), load="load-1")
    write(store, 2)
    assert take(options(store), load="load-1") == first
    assert take(options(store), load="load-2").ts > first.ts


def test_a_pin_names_the_application_and_the_users_line(store: lowtide.Store) -> None:
    take(options(store, __lowtide_origin="Spark application 'nightly' local-1, report.py:7"))
    (pin,) = store.pins()
    assert pin.owner.endswith("(Spark application 'nightly' local-1, report.py:7)")
    take(options(store))
    (pin,) = store.pins()
    assert pin.owner.endswith("report.py:7) and 1 more")
    with lowtide.spark.pinned(store.path) as name:
        (owner,) = [pin.owner for pin in store.pins() if pin.name == name]
        assert re.search(r"tests/unit/spark/test_load_pin\.py:\d+\)", owner)


def test_the_one_who_stays_is_named_when_the_first_has_gone(store: lowtide.Store) -> None:
    first = take(options(store, __lowtide_origin="one"))
    take(options(store, __lowtide_origin="two"))
    release(store.path, first)
    assert [pin.owner.rpartition(" ")[2] for pin in store.pins()] == ["(two)"]


def test_an_instant_can_be_given_up_also_twice(store: lowtide.Store) -> None:
    pin = take(options(store))
    release(store.path, pin)
    release(store.path, pin)
    assert pin.name not in [each.name for each in store.pins()]
