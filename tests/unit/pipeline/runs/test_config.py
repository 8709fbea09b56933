"""The config file of a pipeline: what it may contain, and that each mistake is reported before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.errors import UsageError
from lowtide.pipeline.runs.config import AuditConfig, ConfigError, LoadConfig, PipelineConfig, make_config, read_config
from lowtide.pipeline.travel.retention import Keep

EVERYTHING = """
store = "shop"
archive = "archive"
collections = ["orders", "users"]
every = "1h"
report = "reports"
metrics = "lowtide.prom"
compact = "always"
keep = "7d, hourly 30d, daily 1y, monthly"
grace = "2d"

[spark]
master = "local[2]"

[spark.settings]
spark.driver.memory = "2g"
"spark.sql.shuffle.partitions" = 8
spark.ui.enabled = false

[audit]
history = "history.jsonl"
level = "snapshot"

[[load]]
source = "orders.csv"
collection = "orders"
mapping = { _id = "number", "price" = { from = "Price", cast = "decimal" } }
quarantine = "bad-orders"
max_bad = 0.01
name = "orders"
"""


def test_a_policy_may_be_a_table(place: Path) -> None:
    keep = {"all": "7d", "monthly": True}
    assert make_config({"store": "shop", "archive": "a", "keep": keep}, base=place).keep == Keep.of("7d, monthly")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a store, and the files that jobs read."""
    lowtide.open(tmp_path / "shop", durability="relaxed").close()
    (tmp_path / "history.jsonl").touch()
    (tmp_path / "orders.csv").touch()
    return tmp_path


def problems(place: Path, **values: Any) -> list[str]:
    """What is wrong with a file that has these values besides the required ones."""
    with pytest.raises(ConfigError) as caught:
        make_config({"store": "shop", "archive": "archive", **values}, base=place)
    return list(caught.value.problems)


def test_a_file_says_everything(place: Path) -> None:
    (place / "pipeline.toml").write_text(EVERYTHING)
    config = read_config(place / "pipeline.toml")
    assert (config.store, config.archive) == (str(place / "shop"), str(place / "archive"))
    assert config.collections == ("orders", "users")
    assert (config.every, config.compact) == (3600, "always")
    assert (config.report, config.metrics) == (str(place / "reports"), str(place / "lowtide.prom"))
    assert (config.keep, config.grace) == (Keep.of("7d, hourly 30d, daily 1y, monthly"), 2 * 86400)
    assert config.spark.master == "local[2]"
    assert config.spark.settings == {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
    }
    assert config.audit == AuditConfig(str(place / "history.jsonl"), "SNAPSHOT")
    assert config.loads == (
        LoadConfig(
            source=str(place / "orders.csv"),
            collection="orders",
            mapping={"_id": "number", "price": {"from": "Price", "cast": "decimal"}},
            quarantine=str(place / "bad-orders"),
            max_bad=0.01,
            name="orders",
        ),
    )


def test_two_keys_are_enough(place: Path) -> None:
    config = make_config({"store": "shop", "archive": "s3://bucket/archive"}, base=place)
    assert config == PipelineConfig(store=str(place / "shop"), archive="s3://bucket/archive")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"archvie": 1}, "archvie: is not known; did you mean archive?"),
        ({"zzz": 1}, "zzz: is not known; there is store, archive"),
        ({"store": 3}, "store: 3 is not a text in quotes"),
        ({"store": ""}, "store: is empty"),
        ({"store": "elsewhere"}, "store: {place}/elsewhere does not exist"),
        ({"store": ".", "archive": "s3://a/b"}, "store: {place} is not a Lowtide store"),
        ({"store": "s3://bucket/shop"}, "store: is a URI"),
        ({"archive": "shop/archive"}, "archive: {place}/shop/archive is inside the store"),
        ({"archive": "orders.csv"}, "archive: {place}/orders.csv is a file"),
        ({"collections": []}, "collections: [] is not a list of texts"),
        ({"collections": ["a", "a"]}, "collections: has a value twice"),
        ({"collections": ["a$b"]}, "collections: a collection's name has no $"),
        ({"every": "often"}, "every: 'often' is not a duration"),
        ({"every": "0s"}, "every: '0s' is not above 0"),
        ({"every": 3600}, "every: 3600 is not a text in quotes"),
        ({"metrics": "nowhere/lowtide.prom"}, "metrics: {place}/nowhere does not exist"),
        ({"report": "s3://bucket/reports"}, "report: is a URI"),
        ({"compact": True}, "compact: True is not a text in quotes"),
        ({"compact": "sometimes"}, "compact: 'sometimes' is not known; write one of auto, always, never"),
        ({"keep": "all of it"}, "keep: cannot keep 'all of it'"),
        ({"keep": 7}, "keep: 7 is not a policy; write one such as '7d, hourly"),
        ({"keep": {"weekly": "7d"}}, "keep: a policy has no 'weekly'"),
        ({"grace": "1d"}, "grace: is how long a vacuum waits"),
        ({"spark": {"masters": "x"}}, "spark.masters: is not known; did you mean master?"),
        ({"spark": {"settings": {"a": {"b": []}}}}, "spark.settings.a.b: [] is not a text, a number"),
        ({"audit": {}}, "audit.history: is missing"),
        ({"audit": {"history": "none.jsonl"}}, "audit.history: {place}/none.jsonl does not exist"),
        ({"audit": {"history": "history.jsonl", "level": "best"}}, "audit.level: unknown isolation level 'best'"),
        ({"load": [{"collection": "a"}]}, "load[1].source: is missing"),
        ({"load": [{"source": "none.csv", "collection": "a"}]}, "load[1].source: there is no file {place}/none.csv"),
        ({"load": [{"source": "orders.csv", "collection": "a", "mode": "merge"}]}, "load[1].mode: 'merge' is not"),
        ({"load": [{"source": "orders.csv", "collection": "a", "max_bad": -1}]}, "load[1].max_bad: -1 is not"),
        ({"load": [{"source": "orders.csv", "collection": "a", "mapping": {"_id": 3}}]}, "load[1].mapping: "),
        ({"load": [3]}, "load[1]: 3 is not a table; write [[load]]"),
        ({"load": {"source": "orders.csv"}}, "load: {'source': 'orders.csv'} is not a list"),
    ],
)
def test_a_mistake_names_its_key_and_what_is_wrong(place: Path, values: dict[str, Any], said: str) -> None:
    found = problems(place, **values)
    assert [said.replace("{place}", str(place)) in each for each in found] == [True], found


def test_all_mistakes_are_told_at_once(place: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config({"archive": 1, "every": "x", "audit": {"level": 2}}, base=place, name="pipeline.toml")
    assert len(caught.value.problems) == 5
    assert str(caught.value).startswith("pipeline.toml has 5 problems, and nothing was run:\n  ")


def test_a_store_that_a_load_makes_need_not_exist(place: Path) -> None:
    load = [{"source": "orders.csv", "collection": "orders"}]
    assert make_config({"store": "new", "archive": "archive", "load": load}, base=place).store == str(place / "new")


def test_a_file_that_is_not_there_or_no_toml_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no config file"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("store = shop")
    with pytest.raises(ConfigError, match="it is not TOML: Invalid value"):
        read_config(tmp_path / "bad.toml")
