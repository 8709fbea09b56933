"""``store.metrics()`` is in Prometheus' text format, which a strict parser checks here, and it is complete."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import lowtide
from lowtide.observe.metrics import FAMILIES, MOST_SNAPSHOTS, render
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
VALUE = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Labels = tuple[tuple[str, str], ...]


@dataclass
class Parsed:
    """One family of an exposition."""

    kind: str = ""
    help: str = ""
    series: dict[Labels, float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Parsed]:
    """The families of an exposition in version 0.0.4, or an AssertionError that says what is wrong with it."""
    assert text.endswith("\n"), "the last line must end"
    families: dict[str, Parsed] = {}
    current = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            current, _, told = line.removeprefix("# HELP ").partition(" ")
            assert NAME.fullmatch(current), line
            assert current not in families, f"{current} comes twice"
            assert told, line
            families[current] = Parsed(help=told)
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name == current, "TYPE follows HELP"
            assert not families[name].kind, line
            assert not families[name].series, "TYPE comes before the series"
            assert kind in {"counter", "gauge", "histogram", "summary", "untyped"}, line
            families[name].kind = kind
        else:
            name, labels, value = parse_series(line)
            assert name == current, f"{name} is not with its family"
            assert families[name].kind, line
            assert labels not in families[name].series, f"{line} comes twice"
            families[name].series[labels] = value
    return families


def parse_series(line: str) -> tuple[str, Labels, float]:
    found = NAME.match(line)
    assert found, line
    labels: list[tuple[str, str]] = []
    rest = line[found.end() :]
    if rest.startswith("{"):
        rest = rest[1:]
        while not rest.startswith("}"):
            label = LABEL.match(rest)
            assert label, line
            assert rest[label.end() :].startswith('="'), line
            value = re.match(r'((?:[^\\"\n]|\\[\\"n])*)"', rest[label.end() + 2 :])
            assert value, line
            labels.append((label[0], re.sub(r"\\.", lambda match: UNESCAPED[match[0]], value[1])))
            rest = rest[label.end() + 2 + value.end() :]
            assert rest[0] in ",}", line
            rest = rest.removeprefix(",")
        rest = rest[1:]
    assert len({name for name, _ in labels}) == len(labels), line
    assert rest.startswith(" "), line
    assert VALUE.fullmatch(rest[1:]), line
    return found[0], tuple(labels), float(rest[1:])


@pytest.mark.parametrize(
    "wrong",
    [
        "# HELP a b\n# TYPE a gauge\na 1",
        "a 1\n",
        "# TYPE a gauge\na 1\n",
        "# HELP a b\na 1\n",
        "# HELP a b\n# TYPE a much\na 1\n",
        "# HELP a b\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a b\n# TYPE a gauge\na{x=1} 1\n",
        '# HELP a b\n# TYPE a gauge\na{x="\\d"} 1\n',
        '# HELP a b\n# TYPE a gauge\na{x="""} 1\n',
        '# HELP a b\n# TYPE a gauge\na{x="1"}1\n',
        "# HELP a b\n# TYPE a gauge\na None\n",
        "# HELP a b\n# TYPE a gauge\na 1\n\n",
    ],
)
def test_the_parser_forgives_nothing(wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError)):
        parse(wrong)


def figures(store: lowtide.Store) -> dict[str, float]:
    """The series that have the store's label alone, by name."""
    own: Labels = (("store", str(store.path)),)
    return {name: family.series[own] for name, family in parse(store.metrics()).items() if own in family.series}


def test_a_new_store_has_valid_metrics(store: lowtide.Store) -> None:
    found = figures(store)
    assert found.pop("lowtide_log_bytes") >= 0
    assert found.pop("lowtide_processes") == 1
    assert set(found.values()) == {0.0}
    assert "lowtide_last_checkpoint_duration_seconds" not in found


def test_every_number_among_the_statistics_is_there() -> None:
    texts = {"build", "last_checkpoint_failure"}
    numbers = {each.name for each in dataclasses.fields(lowtide.Stats)} - texts
    assert {family.field for family in FAMILIES} == numbers
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_names_say_what_they_count(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"x", b"0")
    store.checkpoint()
    snapshot = store.snapshot()
    for name, family in parse(store.metrics()).items():
        assert name.startswith("lowtide_")
        assert (family.kind == "counter") == name.endswith("_total"), name
        assert family.help.endswith("."), name
        assert ("bytes" in family.help.lower()) == name.endswith("_bytes"), name
        assert not re.search(r"age|duration", name) or name.endswith("_seconds"), name
    snapshot.close()


def test_the_figures_are_those_of_the_statistics(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, monitor_interval=3600, max_snapshot_age=100)
    keyspace = store.keyspace("k")
    keyspace.put(b"a", b"1")
    expired = store.snapshot()
    clock.advance(100)
    parts_of(store).monitor.tick()
    tx = store.begin()
    tx.keyspace("k").put(b"a", b"2")
    keyspace.put(b"a", b"3")
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    with store.snapshot():
        clock.advance(7)
        keyspace.put(b"a", b"4")
        store.checkpoint()
        keyspace.put(b"b", b"5")
        stats, found = store.stats(), figures(store)
    assert found["lowtide_last_commit"] == found["lowtide_commits_total"] == 4
    assert found["lowtide_conflicts_total"] == 1
    assert found["lowtide_snapshots_expired_total"] == 1
    assert (found["lowtide_snapshots"], found["lowtide_oldest_snapshot_age_seconds"]) == (1, 7)
    assert found["lowtide_history_versions"] == 1
    assert found["lowtide_last_checkpoint_duration_seconds"] == 0
    for family in FAMILIES:
        value = getattr(stats, family.field)
        if isinstance(value, int | float):
            assert found[family.name] == value, family.name
    expired.close()


def test_a_store_that_failed_says_so(store: lowtide.Store) -> None:
    stats = dataclasses.replace(store.stats(), failure="the disk is gone")
    assert parse(render(stats, "s"))["lowtide_failed"].series == {(("store", "s"),): 1.0}


def test_the_oldest_snapshots_have_series_of_their_own(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)
    living = []
    for number in range(MOST_SNAPSHOTS + 3):
        store.keyspace("k").put(b"x", b"%02d" % number)
        living.append(store.snapshot())
        clock.advance(1)
    store.keyspace("k").put(b"x", b"last")
    families = parse(store.metrics())
    ages = {dict(labels)["ts"]: value for labels, value in families["lowtide_snapshot_age_seconds"].series.items()}
    assert ages == {str(number + 1): 13.0 - number for number in range(MOST_SNAPSHOTS)}
    for name, each in (("versions", 1.0), ("bytes", 4 + 1 + 2)):
        series = families[f"lowtide_snapshot_held_{name}"].series
        assert list(series.values()) == [each] * MOST_SNAPSHOTS
        assert all(dict(labels)["where"].startswith(__file__) for labels in series)
    for snapshot in living:
        snapshot.close()


def test_snapshots_that_cannot_be_told_apart_are_one_series(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)
    living = []
    for _ in range(3):
        living.append(store.snapshot())
        clock.advance(1)
    families = parse(store.metrics())
    assert list(families["lowtide_snapshot_age_seconds"].series.values()) == [3.0]
    assert figures(store)["lowtide_snapshots"] == 3


@pytest.mark.parametrize("name", ['quo"ted', "back\\slash", "new\nline", "ü", '\\"\n\\n', "{a}", "a,b=c"])
def test_a_path_of_any_name_is_a_label(tmp_path: Path, name: str, snapshot_in: Callable[[str], str]) -> None:
    with lowtide.open(tmp_path / name, durability="relaxed") as store:
        assert figures(store)["lowtide_snapshots"] == 0
    (labels,) = parse(snapshot_in(name))["lowtide_snapshot_age_seconds"].series
    assert dict(labels)["where"] == f"{name}.py:7"


def test_a_path_that_is_not_text_does_not_break_the_page(store: lowtide.Store) -> None:
    text = render(store.stats(), "caf\udce9")
    assert parse(text.encode().decode())["lowtide_snapshots"].series == {(("store", "caf?"),): 0.0}


@pytest.fixture
def snapshot_in(store: lowtide.Store) -> Callable[[str], str]:
    """The metrics of a store with one snapshot that was opened in a file of a given name."""

    def of(name: str) -> str:
        stats = dataclasses.replace(store.stats(), snapshots=[lowtide.SnapshotStats(1, 2.5, f"{name}.py:7", 3, 4)])
        return render(stats, "s")

    return of


def test_a_closed_store_has_no_metrics(store: lowtide.Store) -> None:
    store.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        store.metrics()
