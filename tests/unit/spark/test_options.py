"""The options: names in any case, values as text, and the errors for wrong ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import UsageError
from lowtide.spark.options import OPTIONS, SparkOptions, parse_moment


def of(**given: str) -> SparkOptions:
    return SparkOptions(given)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_name_is_known_in_any_case_and_says_what_it_means(name: str) -> None:
    for each in (name, name.lower(), name.upper()):
        assert of(**{each: "x"}).text(name) == "x"
        assert name in of(**{each: "x"})
    assert name not in of()
    assert OPTIONS[name]


@pytest.mark.parametrize(
    ("name", "near"),
    [("collecton", "collection"), ("BATCHSIZES", "batchSize"), ("as_of", "asOf"), ("filters", "filter")],
)
def test_an_unknown_option_is_refused_with_the_one_that_was_meant(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"no option '{name}'; did you mean '{near}'"):
        of(**{name: "x"})


def test_or_without_where_none_is_near() -> None:
    with pytest.raises(UsageError, match=r"^format lowtide has no option 'zzz'$"):
        of(zzz="1")


def test_what_spark_adds_for_itself_is_passed_over() -> None:
    assert of(__globPaths__="x", collection="c").collection == "c"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/data/shop", "/data/shop"),
        ("file:/data/shop", "/data/shop"),
        ("file:///data/shop", "/data/shop"),
        ("file:///data/my%20shop", "/data/my shop"),
        ("/data/100%", "/data/100%"),
    ],
)
def test_a_path_may_be_a_file_uri(given: str, path: str) -> None:
    assert of(path=given).path == Path(path)


def test_a_relative_path_is_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert of(path="shop").path == tmp_path / "shop"


@pytest.mark.parametrize("given", ["s3://bucket/shop", "hdfs://host/shop", "dbfs:/shop"])
def test_a_path_on_another_file_system_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="local disk"):
        _ = of(path=given).path


@pytest.mark.parametrize("given", [{}, {"path": ""}])
def test_without_a_path_nothing_goes(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r'needs the store\'s directory: option\("path"'):
        _ = of(**given).path


@pytest.mark.parametrize("given", [{}, {"collection": "c", "keyspace": "k"}])
def test_one_collection_or_one_keyspace_is_named(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="one collection, one keyspace or one quad store"):
        of(path="/p", **given).check_target()
    of(path="/p", collection="c").check_target()
    of(path="/p", keyspace="k").check_target()


def test_what_is_read_is_said_in_words() -> None:
    assert of(collection="c").what == "collection 'c'"
    assert of(keyspace="k").what == "keyspace 'k'"


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "many", "1e3", "0x10"])
def test_a_number_is_whole_and_large_enough(text: str) -> None:
    with pytest.raises(UsageError, match=f"option 'partitions' is a whole number from 1 on, not {text!r}"):
        of(partitions=text).number("partitions")


def test_numbers_have_defaults() -> None:
    assert of().number("partitions") is None
    assert of().number("partitions", 7) == 7
    assert of(partitions=" 12 ").number("partitions", 7) == 12
    assert of(versionAsOf="0").number("versionAsOf", least=0) == 0


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1h", "", "1e11"])
def test_seconds_are_more_than_none_and_end(text: str) -> None:
    with pytest.raises(UsageError, match="option 'pinTtl' is a number of seconds, more than 0"):
        of(pinTtl=text).seconds("pinTtl", 1.0)


def test_seconds_have_a_default_and_fractions() -> None:
    assert of().seconds("pinTtl", 60.0) == 60.0
    assert of(pinTtl="0.5").seconds("pinTtl", 60.0) == 0.5


@pytest.mark.parametrize(
    ("text", "flag"), [("true", True), ("True", True), ("1", True), ("FALSE", False), ("no", False)]
)
def test_a_flag_is_true_or_false(text: str, flag: bool) -> None:
    assert of(cache=text).flag("cache", not flag) is flag


def test_and_nothing_else() -> None:
    assert of().flag("cache", True)
    with pytest.raises(UsageError, match="option 'cache' is true or false, not 'maybe'"):
        of(cache="maybe").flag("cache")


def test_a_choice_is_one_of_those_there_are() -> None:
    choices = ("auto", "sample", "jsonSchema")
    assert of(schemaFrom="JSONSCHEMA").one_of("schemaFrom", choices, "auto") == "jsonSchema"
    assert of().one_of("schemaFrom", choices, "auto") == "auto"
    with pytest.raises(UsageError, match="option 'schemaFrom' is auto, sample, jsonSchema, not 'guess'"):
        of(schemaFrom="guess").one_of("schemaFrom", choices, "auto")


@pytest.mark.parametrize(
    ("text", "names"),
    [("a,b", ["a", "b"]), (" a , b ,", ["a", "b"]), ('["a,b", "c"]', ["a,b", "c"]), ("", []), ("[]", [])],
)
def test_names_come_with_commas_or_as_json(text: str, names: list[str]) -> None:
    assert of(columns=text).names("columns") == names


@given(st.lists(st.text()))
def test_any_names_can_be_given_as_json(names: list[str]) -> None:
    import msgspec

    assert of(columns=msgspec.json.encode(names).decode()).names("columns") == names


@pytest.mark.parametrize("text", ["[1]", '["a", null]', '["a"', "[a]"])
def test_what_begins_as_a_list_must_be_one_of_names(text: str) -> None:
    with pytest.raises(UsageError, match="option 'columns'"):
        of(columns=text).names("columns")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": {"$gte": 1}}', {"a": {"$gte": 1}}),
        ('{"at": {"$date": "2026-05-01T12:00:00Z"}}', {"at": datetime(2026, 5, 1, 12, tzinfo=UTC)}),
        ('{"$oid": 1}', UsageError),
        ('{"a": 1', UsageError),
        ("{'a': 1}", UsageError),
    ],
)
def test_json_has_mongodbs_extensions(text: str, value: Any) -> None:
    if value is UsageError:
        with pytest.raises(UsageError, match="option 'filter' must be JSON, and is "):
            of(filter=text).json("filter")
    else:
        assert of(filter=text).json("filter") == value


def test_a_json_option_that_was_not_given_is_none() -> None:
    assert of().json("filter") is None
    assert of(filter="null").json("filter") is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-05-01T12:00:00Z", 1777636800.0),
        ("2026-05-01 12:00:00", 1777636800.0),
        ("2026-05-01T14:00:00+02:00", 1777636800.0),
        ("2026-05-01", 1777593600.0),
        ("2026-05-01T12:00:00.5Z", 1777636800.5),
    ],
)
def test_a_moment_without_a_zone_is_utc(text: str, moment: float) -> None:
    assert of(timestampAsOf=text).moment("timestampAsOf") == moment


@pytest.mark.parametrize("text", ["", "yesterday", "12:00", "2026-13-01", "1777636800"])
def test_a_moment_is_iso(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"option 'startingTimestamp' is an ISO time such as 2026-05-01T12:00:00Z, not"
    ):
        parse_moment("startingTimestamp", text)
    assert of().moment("startingTimestamp") is None


def test_what_means_nothing_where_it_is_given_is_refused() -> None:
    of(path="p").refuse(("filter", "columns"), "here")
    with pytest.raises(UsageError, match="option 'columns' has no meaning here"):
        of(columns="a").refuse(("filter", "columns"), "here")
