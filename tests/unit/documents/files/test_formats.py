"""Files of documents: what is written is read back, and errors name the place that cannot be read."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.documents.files import batches, json_array, json_lines
from lowtide.documents.files.csv_table import columns_of, read_csv, write_csv
from lowtide.documents.files.documents import read_documents, write_documents
from lowtide.documents.files.json_array import read_json
from lowtide.documents.files.json_lines import read_json_lines
from lowtide.documents.files.problems import BadFile
from lowtide.documents.files.streams import FileSource
from lowtide.documents.operations import PlainDocuments
from lowtide.documents.prepared.inserts import prepare_batch
from lowtide.values.cleaning import MAX_DEPTH
from lowtide.values.codec import encode_document
from lowtide.values.values import Document
from tests.unit.documents.files.values import documents, typed


def source(content: bytes) -> FileSource:
    return FileSource("a file", io.BytesIO(content), len(content), lambda: 0)


def read(content: bytes, format: str, **more: Any) -> list[Document]:
    return [each for batch in read_documents(source(content), format, **more) for each in batch.documents]


def written(found: list[Document], format: str) -> bytes:
    stream = io.BytesIO()
    assert write_documents(stream, format, lambda: found) == len(found)
    return stream.getvalue()


@pytest.mark.parametrize("format", ["jsonl", "json"])
@given(found=st.lists(documents, max_size=5))
def test_documents_come_back_as_they_were(format: str, found: list[Document]) -> None:
    assert typed(read(written(found, format), format)) == typed(found)


@pytest.mark.parametrize("format", ["jsonl", "json"])
def test_documents_that_are_larger_than_what_is_read_at_once_come_back(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (json_lines, json_array):
        monkeypatch.setattr(module, "CHUNK", 7)
    found: list[Document] = [{"n": n, "text": 'ä\n"\\' * n, "in": [[n], {"x": True}], "f": 1e10 * n} for n in range(40)]
    assert read(written(found, format), format) == found


def test_a_large_file_is_read_in_batches_with_the_lines_of_each() -> None:
    found: list[Document] = [{"n": n, "text": "x" * 100} for n in range(20_000)]
    for format in ("jsonl", "json"):
        parts = list(read_documents(source(written(found, format)), format))
        assert len(parts) > 3
        assert [each for part in parts for each in part.documents] == found
        assert [part.place(index) for part in parts for index in range(len(part.documents))] == [
            f"line {n}" for n in range(1, 20_001)
        ]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"  \r\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("format", ["jsonl", "json", "csv"])
def test_an_empty_file_holds_nothing(content: bytes, format: str) -> None:
    if format != "csv" or content in (b"", b"\xef\xbb\xbf"):
        assert read(content, format) == []


def test_json_lines_may_have_empty_lines_windows_ends_and_no_end() -> None:
    content = b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": {"$numberInt": "2"}}\n{"a": 3}'
    parts = list(read_json_lines(io.BytesIO(content), "f"))
    assert [each["a"] for part in parts for each in part.documents] == [1, 2, 3]
    assert [place for part in parts for place in part.places] == [1, 4, 5]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"[]", []),
        (b" [\n] \n", []),
        (b'[{"a": 1},\n {"a":\n 2}]', [(1, 1), (2, 2)]),
        (b'{"a": 1}\n{"a":\n 2} {"a": 3}', [(1, 1), (2, 2), (3, 3)]),
        (b'\xef\xbb\xbf[{"a": {"$numberLong": "7"}}]', [(7, 1)]),
    ],
)
def test_json_may_be_laid_out_as_it_likes(content: bytes, found: list[tuple[int, int]]) -> None:
    parts = list(read_json(io.BytesIO(content), "f"))
    values = [each["a"] for part in parts for each in part.documents]
    places = [place for part in parts for place in part.places]
    assert values == [value for value, _ in found]
    assert places[:2] == [line for _, line in found][:2]


MALFORMED = [
    ("jsonl", b'{"a": 1}\n{"a": }\n', "line 2, column 7", ""),
    ("jsonl", b'{"a": 1}\n\n{"\xc3\xa4": 1x}\n', "line 3, column 8", ""),
    ("jsonl", b'{"a": 1}\n[1]\n', "line 2", ""),
    ("jsonl", b'{"a": 1}\nnull', "line 2", ""),
    ("jsonl", b'{"a": 1}\n{"a": {"b": {"$date": "x"}}}\n', "line 2", "a.b"),
    ("jsonl", b'{"$date": "2026-05-01"}\n', "line 1", ""),
    ("jsonl", b'{"a": NaN}\n', "line 1, column 7", ""),
    ("jsonl", b'{"a": 1e999}\n', "line 1", ""),
    ("jsonl", b'{"a": "\xff"}\n', "line 1", ""),
    ("jsonl", b'{"a":' * 5000, "line 1", ""),
    ("jsonl", b'{\n"a": 1\n}\n', "line 1", ""),
    ("json", b'[{"a": 1},\n{"a": }]', "line 2, column 7", ""),
    ("json", b'[{"a": 1},\n {"a": 2}', "line 2, column 10", ""),
    ("json", b'[{"a": 1}\n{"a": 2}]', "line 2, column 1", ""),
    ("json", b'[{"a": 1}, 5]', "line 1, column 12", ""),
    ("json", b'[{"a": 1}] x', "line 1, column 12", ""),
    ("json", b'[{"a": NaN}]', "line 1, column 2", ""),
    ("json", b'[{"a": "\xff"}]', "after line 1", ""),
    ("json", b'[{"a": [{"$uuid": "x"}]}]', "line 1", "a.0"),
    ("json", b"[" + b'{"a":' * 5000, "line 1", ""),
    ("csv", b"a,b\n1,2\n1,2,3\n", "line 3", ""),
    ("csv", b'a,b\n1,"x\ny"\n1,"x"y\n', "line 4", ""),
    ("csv", b"a,a\n1,2\n", "line 1", "a"),
    ("csv", b"a,\n1,2\n", "line 1", ""),
    ("csv", b"a,a.b\n1,2\n", "line 2", "a.b"),
    ("csv", b"a,b\n\xff,2\n", "after line", ""),
]


@pytest.mark.parametrize(("format", "content", "place", "field"), MALFORMED, ids=range(len(MALFORMED)))
def test_what_cannot_be_read_is_named_with_its_place(format: str, content: bytes, place: str, field: str) -> None:
    with pytest.raises(BadFile) as raised:
        read(content, format)
    assert raised.value.place.startswith(place)
    assert raised.value.field == field
    assert str(raised.value).startswith(f"a file, {place}")


def test_a_fault_far_into_a_json_array_does_not_read_all_of_the_rest() -> None:
    stream = io.BytesIO(b'[{"a": 1}, {"a" 2},' + b'{"a": 3},' * 1_000_000)
    with pytest.raises(BadFile, match="line 1, column 17"):
        list(read_json(stream, "f"))
    assert stream.tell() <= 2 * batches.CHUNK


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "LONGEST", 3 * batches.CHUNK)
    stream = io.BytesIO(b"{}\n" + b" " * 20 * batches.CHUNK)
    with pytest.raises(BadFile, match="line 2: the line is longer"):
        list(read_json_lines(stream, "f"))
    assert stream.tell() < 6 * batches.CHUNK


def test_csv_takes_a_cell_for_more_than_text_only_where_nothing_is_lost() -> None:
    content = b'id,age,code,price,on,tags,note\n1,30,007,2.5,true,"[""a"",1]",\n2,-4,+1,1.50,True,"[1, 2]",x\n'
    assert read(content, "csv") == [
        {"id": 1, "age": 30, "code": "007", "price": 2.5, "on": True, "tags": ["a", 1]},
        {"id": 2, "age": -4, "code": "+1", "price": "1.50", "on": "True", "tags": "[1, 2]", "note": "x"},
    ]


def test_csv_reads_columns_as_it_is_told() -> None:
    content = b"at,n,d,u,b,j,rest\n2026-05-01T12:00:00Z,007,1.50,018f2f5e-6d1c-7000-8000-0123456789ab,AP8=,{},12\n"
    kinds = {"at": "datetime", "n": "int", "d": "decimal", "u": "uuid", "b": "bytes", "j": "json", "*": "str"}
    (found,) = read(content, "csv", kinds=kinds)
    assert [type(value).__name__ for value in found.values()] == [
        *("datetime", "int", "Decimal", "UUID", "bytes", "dict", "str")
    ]
    with pytest.raises(BadFile, match=r"line 2, field 'n': 'x' is not of type int.*--types n=str"):
        read(b"n\nx\n", "csv", kinds={"n": "int"})
    with pytest.raises(BadFile, match="field 'm': no such column; the columns are n"):
        read(b"n\nx\n", "csv", kinds={"m": "int"})


def test_csv_puts_names_with_dots_into_objects_and_finds_them_there() -> None:
    found = read(b"_id,address.city,address.geo.lat\n1,Oslo,59.9\n2,,\n", "csv")
    assert found == [{"_id": 1, "address": {"city": "Oslo", "geo": {"lat": 59.9}}}, {"_id": 2}]
    stream = io.BytesIO()
    assert write_csv(stream, found, ["_id", "address.city", "address.geo.lat", "address.x.y"]) == 2
    assert stream.getvalue() == b"_id,address.city,address.geo.lat,address.x.y\n1,Oslo,59.9,\n2,,,\n"


csv_values: st.SearchStrategy[Any] = (
    st.integers()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("abcä ,\"'\n\r;", min_size=1)
    | st.lists(st.integers() | st.none() | st.uuids(), max_size=3)
)


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), csv_values, min_size=1), max_size=5))
def test_csv_brings_back_numbers_booleans_text_and_arrays(found: list[Document]) -> None:
    assert typed(read(written(found, "csv"), "csv")) == typed(found)


def test_the_columns_of_a_csv_are_all_fields_in_the_order_in_which_they_appear() -> None:
    assert columns_of([{"b": 1, "a": 1}, {"a": 2}, {"c": 3, "b": None}]) == ["b", "a", "c"]


def test_large_cells_are_read() -> None:
    (batch,) = read_csv(io.BytesIO(b"a\n" + b"x" * 1_000_000 + b"\n"), "f")
    assert batch.documents == [{"a": "x" * 1_000_000}]


def test_a_packed_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    from lowtide.documents.files.streams import reading_from, writing_to

    path = tmp_path / "a.jsonl.gz"
    with writing_to(str(path)) as stream:
        write_documents(stream, "jsonl", lambda: [{"n": n} for n in range(100_000)])
    with reading_from(str(path)) as opened:
        assert sum(len(batch.documents) for batch in read_documents(opened, "jsonl")) == 100_000
    path.write_bytes(path.read_bytes()[:-1000])
    with reading_from(str(path)) as opened, pytest.raises(BadFile, match="cannot be decompressed"):
        list(read_documents(opened, "jsonl"))


def nested(depth: int) -> str:
    return "[" * (depth - 1) + "]" * (depth - 1)


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ('{"_id": 1, "a": [1.5, null, {"b": "x"}], "c": 1e300}', True),
        ('{"_id": 1, "price": "5 $"}', True),
        (f'{{"_id": 1, "a": {nested(MAX_DEPTH)}}}', True),
        (f'{{"_id": 1, "a": {nested(MAX_DEPTH + 1)}}}', False),
        ('{"_id": 1, "a": {"$set": 1}}', False),
        ('{"_id": 1, "a": {"\\u0024set": 1}}', False),
    ],
)
def test_lines_are_plain_if_nothing_of_them_need_be_checked(line: str, plain: bool) -> None:
    content = f'{{"_id": 0}}\n{line}\n'.encode()
    (batch,) = read_json_lines(io.BytesIO(content), "a file")
    assert batch.plain == plain
    prepared = prepare_batch(PlainDocuments(batch.documents))
    if plain:
        assert prepared is not None
        assert prepared.encoded == [encode_document(each) for each in batch.documents]


@pytest.mark.parametrize("value", [str(2**70), '"\\ud800"'])
def test_what_only_its_encoding_shows_is_left_to_the_checks(value: str) -> None:
    assert prepare_batch(PlainDocuments([{"_id": 1, "a": json.loads(value)}])) is None
