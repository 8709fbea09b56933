"""How a read is partitioned: every key is in exactly one partition. And which keys the options select."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide
from lowtide.errors import UsageError
from lowtide.spark.options import SparkOptions
from lowtide.spark.partitions import Bounds, EntryRange, RowRange, bounds
from lowtide.values.extended import dumps
from lowtide.values.ids import id_key
from tests.unit.spark.loading import Load

ids = st.integers() | st.text(max_size=10) | st.binary(max_size=10) | st.uuids()


def collection(**given: str) -> Bounds:
    return bounds(SparkOptions({"collection": "c", **given}))


def keyspace(**given: str) -> Bounds:
    return bounds(SparkOptions({"keyspace": "k", **given}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-7", -7),
        ("abc", "abc"),
        ('"5"', "5"),
        ('{"$uuid": "00000000-0000-0000-0000-000000000001"}', UUID(int=1)),
        ('{"$binary": {"base64": "eA==", "subType": "00"}}', b"x"),
        ("[1]", "[1]"),
        ("null", "null"),
        ("", ""),
    ],
)
def test_an_id_is_given_as_json_or_else_as_text(text: str, value: Any) -> None:
    assert collection(keyStart=text) == Bounds(id_key(value), None)
    assert collection(keyEnd=text) == Bounds(b"", id_key(value))


@pytest.mark.parametrize("text", ["5.5", "1e3", '{"$date": "2026-01-01T00:00:00Z"}', '{"$uuid": "no"}', '{"_id": 5}'])
def test_a_number_or_an_object_that_is_no_id_is_not_taken_for_text(text: str) -> None:
    """As text it would lie behind all numbers, and a read from it on would show nothing."""
    for name in ("keyStart", "keyEnd"):
        with pytest.raises(UsageError, match=f"option '{name}' is not a valid _id"):
            collection(**{name: text})
    assert collection(keyStart=dumps(text).decode()) == Bounds(id_key(text), None)


@pytest.mark.parametrize(
    ("text", "key"), [("abc", b"abc"), ("0x00ff", b"\x00\xff"), ("é", "é".encode()), ("5", b"5"), ("0x", b"")]
)
def test_a_key_is_text_or_hexadecimal(text: str, key: bytes) -> None:
    assert keyspace(keyStart=text) == Bounds(key, None)


def test_what_begins_like_hexadecimal_must_be_it() -> None:
    with pytest.raises(UsageError, match="'keyEnd' begins with 0x, but is not hexadecimal: '0xyz'"):
        keyspace(keyEnd="0xyz")


def test_without_bounds_everything_is_meant() -> None:
    assert collection() == keyspace() == Bounds(b"", None)
    assert keyspace(keyPrefix="") == Bounds(b"", None)


@pytest.mark.parametrize("name", ["keyStart", "keyEnd"])
def test_a_prefix_goes_without_a_start_and_an_end(name: str) -> None:
    with pytest.raises(UsageError, match="'keyPrefix' sets both the start and the end"):
        collection(keyPrefix="a", **{name: "b"})


@pytest.mark.parametrize(("first", "last"), [("5", "5"), ("6", "5"), ("b", "a"), ("a", "5")])
def test_a_start_that_does_not_lie_before_the_end_is_refused(first: str, last: str) -> None:
    with pytest.raises(UsageError, match=f"'keyStart' {first!r} must sort before 'keyEnd' {last!r}"):
        collection(keyStart=first, keyEnd=last)


def test_an_id_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(UsageError, match="option 'keyStart' is not a valid _id"):
        collection(keyStart="x" * 300)


@given(st.text(max_size=6), st.text(max_size=6) | st.integers() | st.binary(max_size=6))
def test_a_prefix_holds_the_strings_that_begin_with_it_and_no_other_ids(prefix: str, value: Any) -> None:
    import msgspec

    within = collection(keyPrefix=msgspec.json.encode(prefix).decode())
    key = id_key(value)
    inside = within.low <= key and (within.high is None or key < within.high)
    assert inside == (isinstance(value, str) and value.startswith(prefix))


@given(st.binary(max_size=4), st.binary(max_size=5))
def test_and_of_keys_those_that_begin_with_its_bytes(prefix: bytes, key: bytes) -> None:
    within = keyspace(keyPrefix="0x" + prefix.hex())
    inside = within.low <= key and (within.high is None or key < within.high)
    assert inside == key.startswith(prefix)


@given(*[st.binary(max_size=2)] * 5, st.booleans(), st.booleans())
def test_bounds_meet_in_what_both_hold(
    low: bytes, high: bytes, other_low: bytes, other_high: bytes, key: bytes, open_end: bool, other_open: bool
) -> None:
    first = Bounds(low, None if open_end else high)
    second = Bounds(other_low, None if other_open else other_high)

    def holds(within: Bounds | None) -> bool:
        return within is not None and within.low <= key and (within.high is None or key < within.high)

    assert holds(first.meet(second.low, second.high)) == (holds(first) and holds(second))


@pytest.fixture
def path(store: lowtide.Store) -> str:
    """A collection with integers, strings and bytes as _ids, and an index."""
    collection = store.collection("c")
    collection.insert_many([{"_id": number, "a": number % 10} for number in range(300)])
    collection.insert_many([{"_id": f"s{number:03}", "a": 1} for number in range(100)])
    collection.insert_many([{"_id": bytes([number]), "a": 2} for number in range(100)])
    collection.create_index("a")
    return str(store.path)


@pytest.mark.parametrize(("parts", "batch"), [(1, 1), (1, 10_000), (2, 7), (3, 100), (40, 3)])
def test_the_parts_together_hold_every_row_once_and_in_order(path: str, parts: int, batch: int) -> None:
    load = Load(path, collection="c", partitions=parts, batchSize=batch, columns="_id")
    assert len(load.partitions) <= parts
    assert [part.low for part in load.partitions if isinstance(part, RowRange)][1:] == [
        part.high for part in load.partitions if isinstance(part, RowRange)
    ][:-1]
    rows = [row["_id"] for row in load.rows()]
    assert len(rows) == len(set(rows)) == 500


def test_there_are_no_more_parts_than_rows(store: lowtide.Store) -> None:
    store.collection("c").insert_many([{"_id": number} for number in range(3)])
    load = Load(store.path, collection="c", partitions=100)
    assert 1 <= len(load.partitions) <= 3
    assert load.ids() == [0, 1, 2]


def test_no_batch_is_larger_than_asked_for(path: str) -> None:
    load = Load(path, collection="c", partitions=2, batchSize=7)
    sizes = [batch.num_rows for part in load.partitions for batch in load.batches(part)]
    assert max(sizes) == 7
    assert sum(sizes) == 500


def test_parts_have_about_as_many_rows(path: str) -> None:
    load = Load(path, collection="c", partitions=4)
    sizes = [sum(batch.num_rows for batch in load.batches(part)) for part in load.partitions]
    assert len(sizes) == 4
    assert max(sizes) <= 150


@pytest.mark.parametrize("parts", [1, 3])
def test_key_bounds_limit_a_read(path: str, parts: int) -> None:
    def read(**options: Any) -> list[Any]:
        rows = Load(path, collection="c", columns="_id", jsonColumns="_id", partitions=parts, **options).ids()
        return [each.strip('"') for each in rows]

    assert read(keyStart=10, keyEnd=20) == [str(number) for number in range(10, 20)]
    assert read(keyStart=295, keyEnd="s002") == ["295", "296", "297", "298", "299", "s000", "s001"]
    assert read(keyPrefix="s01") == [f"s01{digit}" for digit in range(10)]
    assert read(keyPrefix="none") == []
    assert len(read(keyStart='{"$binary": {"base64": "Cg==", "subType": "00"}}')) == 90
    assert read(keyStart=290, keyEnd=295, filter='{"a": {"$gte": 3}}') == ["293", "294"]
    assert read(keyEnd=100, filter='{"a": 3}') == [str(number) for number in range(3, 100, 10)]
    assert read(keyStart=5, filter='{"_id": {"$lt": 8}}') == ["5", "6", "7"]
    assert read(keyStart=50, filter='{"_id": {"$lt": 8}}') == []
    assert read(keyEnd=50, filter='{"_id": {"$in": [1, 60]}}') == ["1"]
    assert read(keyEnd=50, filter='{"$or": [{"_id": 60}, {"_id": 3}, {"a": 77}]}') == ["3"]


def test_a_filter_by_a_large_part_of_an_index_is_cut_too(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.spark.partitions.SMALL_ENTRIES", 20)
    for text in ('{"a": {"$gte": 1}}', '{"a": {"$gte": 1, "$lt": 8}}', '{"a": {"$in": [1, 2, 7]}}', '{"a": 1}'):
        load = Load(path, collection="c", columns="_id", partitions=4, filter=text)
        whole = Load(path, collection="c", columns="_id", partitions=1, filter=text)
        assert 1 < len(load.partitions) <= 4
        assert all(isinstance(part, EntryRange) for part in load.partitions)
        assert whole.partitions == [EntryRange(None, None)]
        assert load.ids() == whole.ids()
        assert len(set(load.ids())) == len(load.ids()) > 20


def test_a_few_entries_of_an_index_are_one_part_and_are_not_read_to_plan_it(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: object) -> None:
        raise AssertionError("planning reads all entries")

    monkeypatch.setattr("lowtide.documents.reader.CollectionReader.entries", unread)
    load = Load(path, collection="c", columns="_id", partitions=4, filter='{"a": {"$gte": 1}}')
    assert load.partitions == [EntryRange(None, None)]


def test_what_a_filter_can_never_match_is_one_part_without_rows(path: str) -> None:
    for text in ('{"_id": {"$gt": 5, "$lt": 3}}', '{"_id": {"$in": []}}', '{"$or": [{"_id": 900}]}'):
        load = Load(path, collection="c", filter=text)
        assert len(load.partitions) <= 1
        assert load.rows() == []


def test_few_rows_are_one_part_and_many_as_many_as_there_are_cores(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert len(Load(path, collection="c").partitions) == 1
    assert len(Load(path, collection="c", partitions=3).partitions) == 3
    monkeypatch.setattr("lowtide.spark.partitions.SMALL", 20)
    assert len(Load(path, collection="c").partitions) == 5
    assert len(Load(path, collection="c", keyEnd=10).partitions) == 1, "of what is asked for"


def test_and_few_large_rows_too(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading thousands of large rows to count them would take longer than the read itself."""
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    monkeypatch.setattr("lowtide.spark.partitions.SMALL_BYTES", 100)
    assert len(Load(path, collection="c").partitions) == 5
    assert len(Load(path, collection="c", keyEnd=2).partitions) == 1
