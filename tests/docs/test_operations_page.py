"""The tables of options, statistics and log lines in docs/operations.md match the source."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.garbage.account import Holding
from lowtide.engine.types import MAX_COMMIT, MAX_VALUE
from lowtide.observe.ages import SnapshotReport
from tests.docs.documents import OPERATIONS, ROOT, section, table

OPTIONS = {row[0].strip("`"): row for row in table(section(OPERATIONS, "Options of lowtide.open"))}
FOR_DEVELOPERS = frozenset(("demo", "bench", "peers", "test"))
STATISTICS = {row[0].strip("`"): row[1] for row in table(section(OPERATIONS, "store.stats()"))}


def fields_of(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def test_the_table_of_options_has_each_option_in_order() -> None:
    assert list(OPTIONS) == fields_of(lowtide.Options)


@pytest.mark.parametrize("field", dataclasses.fields(lowtide.Options), ids=lambda field: str(field.name))
def test_the_default_in_the_table_is_the_default(field: dataclasses.Field[object]) -> None:
    default = OPTIONS[field.name][1]
    if field.default is dataclasses.MISSING:
        assert "`" not in default  # told in words
    else:
        assert default == f"`{field.default!r}`".replace("'", '"')


def test_each_option_says_when_to_change_it() -> None:
    assert [name for name, row in OPTIONS.items() if len(row[2].split()) < 4] == []


def test_the_table_of_statistics_has_each_field_in_order() -> None:
    fields = fields_of(lowtide.Stats)
    inner_kinds = ("snapshots", lowtide.SnapshotStats), ("pins", lowtide.PinStats), ("processes", lowtide.ProcessStats)
    for inner, kind in inner_kinds:
        after = fields.index(inner) + 1
        fields[after:after] = [f"{inner}[].{name}" for name in fields_of(kind)]
    assert list(STATISTICS) == fields


def test_each_extra_for_users_is_in_the_table() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    documented = [row[0].strip("`") for row in table(section(OPERATIONS, "Extras"))]
    assert documented == [name for name in project["optional-dependencies"] if name not in FOR_DEVELOPERS]


def test_each_choice_of_an_option_is_named() -> None:
    """The refusal of a wrong value lists the right ones; the page must know them too."""
    text = OPERATIONS.read_text()
    for name in ("durability", "collector", "checkpointer"):
        with pytest.raises(lowtide.UsageError, match=name) as refusal:
            lowtide.open("unused", **{name: "wrong"})  # type: ignore[arg-type]
        for choice in re.findall(r"'(\w+)'", str(refusal.value).partition(", not")[0]):
            assert f'"{choice}"' in text, (name, choice)


def test_the_levels_of_the_log_are_those_that_are_used() -> None:
    """``exception`` logs at ERROR with the traceback."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    used = {"exception": "ERROR"}
    levels = {used.get(name, name.upper()) for name in re.findall(r"\blogger\.(\w+)\(", source)}
    documented = {row[0].partition(",")[0] for row in table(section(OPERATIONS, "Logging"))}
    assert levels == documented
    assert set(re.findall(r'getLogger\("(\w+)"\)', source)) == {"lowtide"}


@pytest.mark.parametrize(
    ("pattern", "source"),
    [
        (r"A checkpoint of up to ([\d,]+) keys runs in the maintenance thread", "HELPER_FROM = {}"),
        (r"`cache_rows` rows with values of at most (\d+) bytes", "LARGEST_CACHED = {}"),
        (r"while a SERIALIZABLE transaction is open \| ([\d,]+) keys", "_MOST_KEYS = {}"),
        (r"segments of (\d+) KiB at first", "_FIRST_SEGMENT = {} * 1024"),
        (r"up to (two) are kept as spares", "_SPARES = {}"),
        (r"there are at least ([\d,]+), and twice as many", "GROWTH_FLOOR = {}"),
        (r"more than (\d+) snapshots are due at once", "MOST_REPORTS = {}"),
        (r"for the (\d+) oldest snapshots", "MOST_SNAPSHOTS = {}"),
    ],
)
def test_a_figure_in_the_text_is_the_one_in_the_source(pattern: str, source: str) -> None:
    text = " ".join(OPERATIONS.read_text().split())
    figure = re.search(pattern, text)
    assert figure is not None, pattern
    value = {"two": "2"}.get(figure[1], figure[1].replace(",", "_"))
    files = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    assert any(re.search(rf"^{re.escape(source.format(value))}$", file, re.MULTILINE) for file in files), value


def test_each_metric_of_the_page_exists(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store") as store, store.snapshot():
        there = set(re.findall(r"^# TYPE (\w+) ", store.metrics(), re.MULTILINE))
    named = set(re.findall(r"lowtide_\w+", section(OPERATIONS, "Monitoring")))
    assert len(named) > 8
    assert named <= there


def test_the_lines_of_the_monitor_are_those_of_the_page() -> None:
    """With the numbers of the page, so that a search for a log line finds it there."""

    class Stuck:
        token, ts, begun, origin = 1, 41, 0.0, "report.py:12"

    text = section(OPERATIONS, "Monitoring")
    assert str(SnapshotReport("old", Stuck(), 61, Holding(1200, 34560))) in text
    assert str(SnapshotReport("more", Stuck(), 114, Holding(0, 0), 15)) in text
    assert str(SnapshotReport("growth", Stuck(), 61, Holding(0, 0), 4000)).partition(" the snapshot")[0] in text


def test_the_limits_of_the_documentation_are_those_of_the_source(tmp_path: Path) -> None:
    limits = " ".join((ROOT / "docs" / "limits.md").read_text().split())
    longest = int(re.findall(r"Keys are up to (\d+) bytes long", limits)[0])
    name = int(re.findall(r"name of a keyspace is up to (\d+) bytes of UTF-8", limits)[0])
    with lowtide.open(tmp_path / "store") as store:
        store.keyspace("n" * name).put(b"k" * longest, b"")
        with pytest.raises(lowtide.UsageError, match=str(longest)):
            store.keyspace("x").put(b"k" * (longest + 1), b"")
        with pytest.raises(lowtide.UsageError, match=str(name)):
            store.keyspace("n" * (name + 1))
    assert f"values up to {MAX_VALUE >> 30} GiB. A transaction can write up to {MAX_COMMIT >> 30} GiB" in limits
    options = lowtide.Options()
    assert f"{options.checkpoint_bytes >> 20} MiB of log or {options.checkpoint_versions:,} versions" in limits
    assert f"a cache of {options.cache_rows:,} small rows" in limits
