"""Tables of Spark's catalog: the schema carries what Spark forgets."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

import lowtide
from lowtide.errors import UsageError
from lowtide.spark.source import LowtideSource
from lowtide.spark.tables import TABLE, creation, table_of, with_table
from tests.conftest import OpenStore
from tests.unit.spark.loading import crossed, struct


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    store = open_store(monitor_interval=3600)
    store["c"].insert_many([{"_id": n, "v": n} for n in range(3)])
    return store


def source(**options: Any) -> LowtideSource:
    found: LowtideSource = crossed(LowtideSource(cast("dict[str, str]", CaseInsensitiveDict(options))))
    return found


def created(store: lowtide.Store, **options: str) -> StructType:
    """The schema that the catalog keeps, by way of JSON."""
    path = f"file:{store.path}"
    given = {"location": path, "path": path, "owner": "me", "provider": "lowtide", "comment": "x", "zz": "1"}
    given |= options | {f"option.{name}": value for name, value in options.items()}
    return StructType.fromJson(source(**given).schema().jsonValue())


def test_of_what_spark_gives_at_creation_only_the_users_options_count() -> None:
    given = {"location": "l", "path": "p", "owner": "o", "provider": "lowtide", "zz": "1", "collection": "c"}
    assert creation({**given, "option.collection": "c"}) == {"path": "p", "collection": "c"}
    assert creation({"path": "p", "collection": "c"}) is None


def test_a_schema_carries_the_options_of_its_table() -> None:
    schema = StructType().add("_id", "long", True, {"lowtide": "json"}).add("v", "long")
    marked = StructType.fromJson(with_table(schema, {"path": "p", "collection": "c"}).jsonValue())
    assert table_of(marked) == {"path": "p", "collection": "c"}
    assert (marked["_id"].metadata or {})["lowtide"] == "json"
    assert table_of(schema) is None


def test_a_table_is_read_by_its_schema_alone(store: lowtide.Store) -> None:
    schema = created(store, collection="c")
    assert store.pins() == [], "creating a table keeps nothing"
    reader = crossed(source().reader(schema))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows == [{"_id": n, "v": n} for n in range(3)]


def test_options_of_the_query_go_before_those_of_the_table(store: lowtide.Store) -> None:
    schema = created(store, collection="c", filter='{"v": 1}')
    reader = crossed(source(filter='{"v": 2}').reader(schema))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows == [{"_id": 2, "v": 2}]


def test_a_value_that_does_not_fit_a_table_is_an_error_as_for_inferred_types(store: lowtide.Store) -> None:
    schema = created(store, collection="c")
    store["c"].insert_one({"_id": 9, "v": "text"})
    reader = source().reader(schema)
    with pytest.raises(lowtide.Error, match="_id 9, field 'v'"):
        [list(reader.read(part)) for part in reader.partitions()]


def test_a_path_that_is_given_is_the_one_that_is_meant(store: lowtide.Store, open_store: OpenStore) -> None:
    """Rows that were read from a table carry its mark to wherever they are written."""
    schema = created(store, collection="c")
    assert (schema["_id"].metadata or {})[TABLE]
    with pytest.raises(UsageError, match="one collection, one keyspace or one quad store"):
        source(path=str(store.path)).writer(schema, False)


def test_a_misspelt_option_is_refused_at_creation(store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match="no option 'colection'; did you mean 'collection'"):
        created(store, colection="c")


def test_a_table_with_declared_columns_is_refused_with_the_way_out() -> None:
    from pyspark.sql.types import LongType

    with pytest.raises(UsageError, match=r"CREATE TABLE \.\.\. USING lowtide OPTIONS \(\.\.\.\) lists no columns"):
        source().reader(struct(_id=LongType()))
