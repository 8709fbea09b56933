"""Schemas from Spark to Arrow and back: nothing is lost, and JSON text stays marked as such."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from lowtide.columnar.inference import JSON, TIMESTAMP, infer_schema, is_json
from lowtide.errors import UsageError
from lowtide.spark.schemas import MARK, arrow_schema, check_types, spark_schema
from tests.unit.columnar.documents import collections

SIMPLE: list[DataType] = [
    *(BooleanType(), ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType()),
    *(DecimalType(10, 2), DecimalType(38, 0), StringType(), BinaryType(), DateType()),
    *(TimestampType(), TimestampNTZType()),
]
types = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: (
        st.builds(ArrayType, inner, st.booleans())
        | st.builds(MapType, st.just(StringType()), inner, st.booleans())
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: StructType([StructField(f"f{number}", kind) for number, kind in enumerate(kinds)])
        )
    ),
    max_leaves=6,
)


@given(st.lists(types, max_size=4), st.booleans())
def test_arrow_schemas_are_the_ones_that_pyspark_compares_with(kinds: list[DataType], nullable: bool) -> None:
    schema = StructType([StructField(f"c{number}", kind, nullable) for number, kind in enumerate(kinds)])
    assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"))


def leaves(field: pa.Field) -> list[tuple[str, bool]]:
    """The types of what has no parts, and whether they are JSON text."""
    kind = field.type
    if pa.types.is_struct(kind):
        return [each for inner in kind for each in leaves(inner)]
    if pa.types.is_list(kind):
        return leaves(kind.value_field)
    if pa.types.is_null(kind):
        return [("string", True)]
    return [(str(kind), is_json(field))]


@given(collections())
def test_an_inferred_schema_comes_back_from_spark_with_its_json_text(documents: list[dict[str, object]]) -> None:
    inferred = infer_schema(documents)
    schema = spark_schema(inferred)
    back = arrow_schema(StructType.fromJson(schema.jsonValue()))
    assert back.names == inferred.names
    assert [leaves(each) for each in back] == [leaves(each) for each in inferred]


@pytest.mark.parametrize(
    ("kind", "spark"),
    [
        (pa.bool_(), BooleanType()),
        (pa.int64(), LongType()),
        (pa.float64(), DoubleType()),
        (pa.decimal128(38, 4), DecimalType(38, 4)),
        (pa.string(), StringType()),
        (pa.binary(), BinaryType()),
        (TIMESTAMP, TimestampType()),
        (pa.list_(pa.list_(pa.int64())), ArrayType(ArrayType(LongType()))),
        (pa.struct([pa.field("x", TIMESTAMP)]), StructType([StructField("x", TimestampType())])),
    ],
)
def test_what_inference_finds_has_a_type_of_spark(kind: pa.DataType, spark: DataType) -> None:
    assert spark_schema(pa.schema([pa.field("c", kind)])) == StructType([StructField("c", spark)])


def text(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=JSON)


def test_json_text_is_marked_where_it_is() -> None:
    inferred = pa.schema(
        [
            text("plain"),
            pa.field("array", pa.list_(text("item"))),
            pa.field("struct", pa.struct([text("x"), pa.field("y", pa.string())])),
            pa.field("deep", pa.list_(pa.struct([pa.field("z", pa.list_(text("item")))]))),
        ]
    )
    schema = spark_schema(inferred)
    assert schema["plain"].metadata == MARK
    assert schema["array"].metadata == MARK
    assert schema["array"].dataType == ArrayType(StringType())
    struct = schema["struct"].dataType
    assert isinstance(struct, StructType)
    assert (struct["x"].metadata, struct["y"].metadata) == (MARK, {})
    back = arrow_schema(schema)
    assert is_json(back.field("plain"))
    assert is_json(back.field("array").type.value_field)
    assert is_json(back.field("struct").type.field("x"))
    assert not is_json(back.field("struct").type.field("y"))
    assert is_json(back.field("deep").type.value_field.type.field("z").type.value_field)


@pytest.mark.parametrize("kind", [pa.null(), pa.list_(pa.null())])
def test_of_what_was_null_everywhere_the_type_is_json_text(kind: pa.DataType) -> None:
    schema = spark_schema(pa.schema([pa.field("c", kind)]))
    assert schema["c"].metadata == MARK
    assert schema["c"].dataType in (StringType(), ArrayType(StringType()))


def test_the_user_names_columns_of_json_text() -> None:
    schema = StructType([StructField("a", StringType()), StructField("b", ArrayType(StringType()))])
    found = arrow_schema(schema, ["a", "b"])
    assert is_json(found.field("a"))
    assert is_json(found.field("b").type.value_field)
    assert not is_json(arrow_schema(schema, ["b"]).field("a"))


def test_which_must_be_there_and_be_strings() -> None:
    schema = StructType([StructField("a", LongType())])
    with pytest.raises(UsageError, match="'jsonColumns' names 'b', which is not a column"):
        arrow_schema(schema, ["b"])
    with pytest.raises(UsageError, match="column 'a' is to have JSON text, and must be of type string, not int64"):
        arrow_schema(schema, ["a"])


def test_metadata_of_others_does_no_harm() -> None:
    schema = StructType([StructField("a", StringType(), True, {"comment": "a name", "lowtide": "other"})])
    assert arrow_schema(schema).equals(pa.schema([pa.field("a", pa.string())]))
    assert not is_json(arrow_schema(schema).field("a"))


@pytest.mark.parametrize(
    "kind", [VariantType(), CalendarIntervalType(), YearMonthIntervalType(), GeometryType(4326), GeographyType(4326)]
)
def test_types_that_documents_cannot_hold_are_refused_by_column(kind: DataType) -> None:
    deep = StructType([StructField("s", ArrayType(MapType(StringType(), kind)))])
    with pytest.raises(UsageError, match=r"column 'a\.s\.element\.value': a document has no values of the type"):
        check_types(StructType([StructField("a", deep)]))
    check_types(StructType([StructField("s", ArrayType(MapType(StringType(), LongType())))]))
