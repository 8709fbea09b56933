"""Columns that only widen, files with consistent types, names that any file system accepts."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.columnar.inference import Fields
from lowtide.pipeline.errors import ConflictingRun
from lowtide.pipeline.tables.columns import ID, KEY, OWN, RAW, plain
from lowtide.pipeline.tables.files import VersionFile
from lowtide.pipeline.tables.location import Location, folder_name, named_by
from lowtide.pipeline.tables.shapes import decode_fields, encode_fields, merge_fields
from lowtide.pipeline.tables.table import VersionTable, agrees
from lowtide.pipeline.tables.writer import VersionRows, VersionWriter, typed_schema
from lowtide.values.codec import encode_document
from lowtide.values.extended import loads
from lowtide.values.ids import id_key

names = st.text(alphabet=st.sampled_from("abAB _,;=(.$é"), min_size=1, max_size=3).filter(
    lambda name: not name.startswith("$")
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-1000, max_value=1000)
    | st.datetimes(timezones=st.just(UTC))
)
values = st.recursive(
    scalars, lambda each: st.lists(each, max_size=3) | st.dictionaries(names, each, max_size=3), max_leaves=5
)
documents = st.dictionaries(names, values, max_size=4)


def rows_of(found: list[dict[str, Any]], version: int = 1) -> VersionRows:
    rows = VersionRows()
    for each in found:
        rows.add("insert", version, 1.7e9, id_key(each["_id"]), encode_document(each))
    return rows


def seen(found: list[dict[str, Any]]) -> Fields:
    fields = Fields()
    fields.add(found)
    return fields


@given(st.lists(documents, max_size=4), st.lists(documents, max_size=4))
def test_shapes_survive_their_text_and_merge(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    one, other, both = seen(first), seen(second), seen(first + second)
    merge_fields(one, other)
    assert decode_fields(encode_fields(one)).schema() == both.schema()


@settings(max_examples=30)
@given(st.lists(documents, min_size=1, max_size=5))
def test_every_document_is_written_whole_and_its_columns_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, found: list[dict[str, Any]]
) -> None:
    stored = [{**each, "_id": number} for number, each in enumerate(found)]
    location = Location.of(tmp_path_factory.mktemp("table"))
    writer = VersionWriter(location, Fields())
    for each in stored:
        writer.write(rows_of([each]))
    files = writer.finish()
    tables = [pa.parquet.read_table(f"{location.root}/{each.name}") for each in files]
    raws = [raw for table in tables for raw in table.column(RAW).to_pylist()]
    assert [loads(each) for each in raws] == stored
    assert sum(each.rows for each in files) == len(stored)
    assert writer.fields is not None
    final = plain(typed_schema(writer.fields))
    assert len({name.casefold() for name in final.names}) == len(final.names)
    assert files[-1].rows == 0 or agrees(tables[-1].schema, plain_types(final))


def plain_types(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each.remove_metadata() for each in schema])


@given(st.text(min_size=1, max_size=20))
def test_a_folder_is_named_for_one_thing(name: str) -> None:
    folder = folder_name(name)
    assert named_by(folder) == name
    assert folder.isascii()
    assert "/" not in folder
    assert not folder.startswith(".")


@pytest.mark.parametrize(
    ("file", "table", "expected"),
    [
        ({"a": 1}, {"a": 2, "b": "x"}, True),
        ({"a": 1}, {"a": 1.5}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": {"b": 1}}, {"a": {"b": "x"}}, False),
        ({"a": [1]}, {"a": ["x"]}, False),
        ({"a": "text"}, {"a": None, "b": 1}, False),
    ],
)
def test_files_agree_with_columns_of_the_same_types(
    file: dict[str, Any], table: dict[str, Any], expected: bool
) -> None:
    first, second = (typed_schema(seen([{ID: 1, **each}])) for each in (file, table))
    assert agrees(first, second) is expected


def test_text_and_json_text_do_not_agree_though_both_are_strings() -> None:
    both = seen([{ID: 1, "a": "text"}, {ID: 2, "a": 1}])
    assert not agrees(typed_schema(seen([{ID: 1, "a": "text"}])), typed_schema(both))


def test_no_column_is_taken_from_the_archive_by_a_field_of_the_same_name() -> None:
    schema = typed_schema(seen([{ID: 1, **dict.fromkeys(OWN - {ID}, 7), "_KEY": 1}]))
    assert sorted(schema.names) == sorted(OWN)
    assert schema.field(KEY).type == pa.string()


@pytest.fixture
def table(tmp_path: Path) -> VersionTable:
    return VersionTable(Location.of(tmp_path / "t"), "t", is_keyspace=False)


def written(table: VersionTable, found: list[dict[str, Any]], version: int) -> list[VersionFile]:
    writer = VersionWriter(table.location, table.fields)
    writer.write(rows_of(found, version))
    files = writer.finish()
    if not table.exists:
        table.create(writer.fields)
    return files


def test_a_commit_of_the_store_is_published_once(table: VersionTable) -> None:
    files = written(table, [{"_id": 1, "price": Decimal("1.50"), "at": datetime(2026, 1, 1, tzinfo=UTC)}], 3)
    assert table.append(files, 3)
    assert not table.append(files, 3)
    assert not table.append(files, 2)
    assert table.archived == 3
    assert [each.rows for each in table.files] == [1]
    assert polars.read_delta(table.location.uri).select("_id", "_version", "price").rows() == [(1, 3, Decimal("1.50"))]


def test_two_that_publish_the_same_commit_at_once_do_not_both_succeed(table: VersionTable) -> None:
    files = written(table, [{"_id": 1}], 1)
    other = VersionTable(table.location, "t", is_keyspace=False)
    assert other.archived == 0
    real = other.reload
    other.reload = lambda: None  # type: ignore[method-assign]  # it looked before the first one published
    assert table.append(files, 1)
    with pytest.raises(ConflictingRun, match="another run changed the table"):
        other.append(written(table, [{"_id": 1}], 1), 1)
    real()
    assert [each.rows for each in other.files] == [1]


def test_two_that_replace_the_same_files_at_once_do_not_both_succeed(table: VersionTable) -> None:
    table.append(written(table, [{"_id": 1}], 1), 1)
    other = VersionTable(table.location, "t", is_keyspace=False)
    old = other.files
    table.replace(table.files, written(table, [{"_id": 1}], 1), new=False, compacted=1)
    with pytest.raises(ConflictingRun):
        other.replace(old, written(table, [{"_id": 1}], 1), new=False, compacted=1)
    table.reload()
    assert sum(each.rows for each in table.files) == 1
    assert table.compacted == 1


def test_a_file_knows_which_keys_it_may_have(table: VersionTable) -> None:
    table.append(written(table, [{"_id": 10}, {"_id": 20}], 1), 1)
    [file] = table.files
    assert file.may_have(id_key(15).hex())
    assert not file.may_have(id_key(21).hex())
    assert not file.may_have(id_key("text").hex())
    assert (file.first_version, file.last_version, file.last_end) == (1, 1, None)
