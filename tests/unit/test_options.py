"""Options are checked before anything is changed, and an error names the wrong one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import lowtide
from lowtide.options import OpenOptions, Options, parse_options


def test_the_defaults_are_the_safe_ones() -> None:
    options = parse_options({})
    assert options == Options(disk=options.disk, clock=options.clock)
    assert options.durability == "full"
    assert options.collector == "exact"
    assert options.checkpointer == "auto"
    assert not options.read_only


def test_an_option_that_is_not_known_is_named_with_those_that_are() -> None:
    with pytest.raises(lowtide.UsageError, match=r"unknown option 'colector'; the options are .*collector"):
        parse_options({"colector": "exact"})


@pytest.mark.parametrize("name", ["durability", "collector", "checkpointer"])
@pytest.mark.parametrize("value", ["somehow", "", None, 3])
def test_a_choice_must_be_one_of_those_that_there_are(name: str, value: object) -> None:
    with pytest.raises(lowtide.UsageError, match=f"{name} must be one of '.*, not {value!r}"):
        parse_options({name: value})


AT_LEAST = {
    "sync_interval": 0.001,
    "collect_threshold": 1,
    "checkpoint_bytes": 1,
    "checkpoint_versions": 1,
    "segment_bytes": 4096,
    "cache_rows": 1,
    "map_size": 128 * 1024,
    "feed_bytes": 0,
    "consumer_bytes": 0,
    "consumer_age": 0,
    "monitor_interval": 0.001,
    "snapshot_warn_age": 0.001,
    "snapshot_critical_age": 0.001,
    "snapshot_warn_interval": 0.001,
}


@pytest.mark.parametrize(("name", "least"), AT_LEAST.items())
def test_a_number_must_be_large_enough(name: str, least: float) -> None:
    assert getattr(parse_options({name: least}), name) == least
    for wrong in (least - 0.0005, -1, True, "much", None, [1]):
        with pytest.raises(lowtide.UsageError, match=f"{name} must be a number of at least {least}, not"):
            parse_options({name: wrong})


def test_the_greatest_age_of_a_snapshot_is_a_number_or_none() -> None:
    assert parse_options({}).max_snapshot_age is None
    assert parse_options({"max_snapshot_age": None}).max_snapshot_age is None
    assert parse_options({"max_snapshot_age": 0.001}).max_snapshot_age == 0.001
    for wrong in (0, -1, True, "long"):
        with pytest.raises(lowtide.UsageError, match=r"max_snapshot_age must be a number of at least 0\.001, not"):
            parse_options({"max_snapshot_age": wrong})


def test_every_number_among_the_options_has_a_least_value_in_this_test() -> None:
    numbers = {each.name for each in fields(Options) if each.type in ("int", "float")}
    assert numbers == set(AT_LEAST)


def test_the_type_checker_knows_exactly_the_options_that_there_are() -> None:
    assert set(get_type_hints(OpenOptions)) == {each.name for each in fields(Options)}


def test_options_cannot_be_changed_afterwards() -> None:
    options = parse_options({})
    with pytest.raises(AttributeError):
        options.durability = "relaxed"  # type: ignore[misc]


@pytest.mark.parametrize("wrong", [{"durability": "none"}, {"map_size": 1}, {"speed": "high"}])
def test_a_wrong_option_leaves_no_directory_behind(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(lowtide.UsageError):
        lowtide.open(tmp_path / "store", **wrong)
    assert list(tmp_path.iterdir()) == []
