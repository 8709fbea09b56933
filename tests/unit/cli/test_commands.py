"""Every command, on a store without an owner and on one that another process owns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import lowtide
from lowtide.observe.stats import Stats
from tests.unit.cli.commands import OWNER, document, invoke, make, owner, tell

EVERY = {
    "stats": ["stats", "STORE"],
    "snapshots": ["snapshots", "STORE"],
    "pins": ["pins", "STORE"],
    "pin": ["pin", "STORE", "mine", "--ttl", "10m", "-k", "fruit"],
    "renew": ["pin", "STORE", "nightly", "--renew", "--ttl", "2h"],
    "unpin": ["unpin", "STORE", "nightly"],
    "consumers": ["consumers", "STORE"],
    "consumers --reset": ["consumers", "STORE", "--reset", "mirror", "--to", "2"],
    "consumers --remove": ["consumers", "STORE", "--remove", "mirror"],
    "verify": ["verify", "STORE"],
    "checkpoint": ["checkpoint", "STORE"],
    "gc": ["gc", "STORE"],
    "backup": ["backup", "STORE", "STORE-copy"],
    "compact": ["compact", "STORE"],
    "metrics": ["metrics", "STORE"],
    "inspect key": ["inspect", "key", "STORE", "fruit", "hex:00ff"],
    "inspect base": ["inspect", "base", "STORE"],
    "inspect segment": ["inspect", "segment", "STORE/log/0000000001.log"],
    "top": ["top", "STORE", "--once", "--interval", "0.05"],
}

ONCE = ("pin", "unpin", "consumers --remove")
"""Those that cannot be repeated."""


@pytest.fixture(params=["nobody", "another process"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A store that is not open, or that another process has open."""
    path = tmp_path / "store"
    if request.param == "nobody":
        yield make(path)
    else:
        with owner(path):
            yield path


def arguments(name: str, store: Path) -> list[str]:
    return [each.replace("STORE", str(store)) for each in EVERY[name]]


def succeed(name: str, store: Path) -> None:
    """Run a command in words and in JSON."""
    result = invoke(*arguments(name, store), "--json")
    assert result.exit_code == 0, (name, result.output)
    assert isinstance(document(result), dict), name
    assert result.stderr == "", name
    make_again = name in ONCE
    words = invoke(*arguments(name if not make_again else "stats", store))
    assert words.exit_code == 0, (name, words.output)
    assert words.stdout.strip(), name
    assert not words.stdout.startswith("{"), name


@pytest.mark.parametrize("name", EVERY)
def test_a_command_succeeds_in_words_and_in_json(name: str, unowned: Path) -> None:
    succeed(name, unowned)


def test_every_command_succeeds_beside_an_owner(tmp_path: Path) -> None:
    """Those that remove what others show come last."""
    with owner(tmp_path / "store"):
        for name in sorted(EVERY, key=lambda name: name in ONCE):
            succeed(name, tmp_path / "store")


def test_stats_have_every_figure(store: Path) -> None:
    found = document(invoke("stats", store, "--json"))
    assert [name for name in found if name not in ("path", "owner")] == [each.name for each in fields(Stats)]
    assert found["last_commit"] == 4
    text = invoke("stats", store).stdout
    assert [each.name for each in fields(Stats) if each.name not in text] == []


def test_pins_are_taken_shown_renewed_and_removed(store: Path) -> None:
    taken = document(invoke("pin", store, "mine", "--ttl", "10m", "-k", "fruit", "--json"))
    assert taken["ts"] == 4
    found = {each["name"]: each for each in document(invoke("pins", store, "--json"))["pins"]}
    assert list(found) == ["mine", "nightly"]
    assert found["mine"]["keyspaces"] == ["fruit"]
    assert found["mine"]["expires"] - found["mine"]["taken"] == pytest.approx(600)
    renewed = document(invoke("pin", store, "mine", "--renew", "--ttl", "2h", "--json"))
    assert renewed["ts"] == 4
    assert renewed["expires"] - found["mine"]["expires"] >= 6600
    copied = document(invoke("pin", store, "older", "--at", "nightly", "--json"))
    assert copied["ts"] == found["nightly"]["ts"] == 3
    assert invoke("unpin", store, "mine").exit_code == 0
    assert invoke("unpin", store, "mine").exit_code == 1
    assert [each["name"] for each in document(invoke("pins", store, "--json"))["pins"]] == ["nightly", "older"]


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["nightly"], 2, "exists"),
        (["mine", "--ttl", "soon"], 2, "not a duration"),
        (["mine", "--ttl", "0"], 2, "ttl"),
        (["mine", "--at", "nobody"], 1, "nobody"),
        (["mine", "--renew"], 1, "no pin 'mine'"),
        (["nightly", "--renew", "-k", "fruit"], 2, "--renew"),
    ],
)
def test_a_pin_that_cannot_be_taken_is_refused_in_words(more: list[str], code: int, words: str, unowned: Path) -> None:
    result = invoke("pin", unowned, *more)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stdout == ""


def changes(*more: object) -> list[dict[str, object]]:
    result = invoke("changes", *more, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_changes_come_one_to_a_line(store: Path) -> None:
    found = changes(store)
    assert [(each["ts"], each["kind"], each["key"], each["value"]) for each in found] == [
        (1, "insert", "apple", "red"),
        (2, "insert", {"base64": "AP8="}, {"base64": "AQ=="}),
        (3, "insert", "pear", "green"),
        (4, "update", "apple", "yellow"),
    ]
    assert changes(store, "--since", 1, "--until", 3, "--limit", 1) == found[1:2]
    assert changes(store, "-k", "fruit") == found
    assert changes(store, "-k", "vegetables") == []
    text = invoke("changes", store).stdout.splitlines()
    assert text[1].endswith("insert  fruit  hex:00ff  hex:01")
    assert text[3].endswith("update  fruit  apple  yellow")


def test_changes_show_what_was_there_before_where_that_is_kept(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", before_images=True) as store:
        for value in (b"red", b"yellow"):
            store.keyspace("fruit").put(b"apple", value)
        store.keyspace("fruit").delete(b"apple")
    found = changes(tmp_path / "store", "--before")
    assert [each["before"] for each in found] == [None, "red", "yellow"]
    text = invoke("changes", tmp_path / "store", "--before").stdout.splitlines()
    assert text[1].endswith("apple  yellow  (was red)")
    assert text[2].endswith("delete  fruit  apple  (was yellow)")


def test_changes_begin_with_the_first_that_is_kept(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", durability="relaxed", segment_bytes=4096, feed_bytes=0) as store:
        for number in range(2000):
            store.keyspace("many").put(b"%d" % number, bytes(1000))
        store.checkpoint()
    found = changes(tmp_path / "store")
    assert 1 < int(str(found[0]["ts"])) <= int(str(found[-1]["ts"])) == 2000
    lost = invoke("changes", tmp_path / "store", "--since", 0)
    assert lost.exit_code == 1
    assert "no longer kept" in lost.stderr
    assert invoke("changes", tmp_path / "store", "--until", 1).exit_code == 1


def test_the_command_line_lets_go_of_no_log_when_it_opens_a_store(tmp_path: Path) -> None:
    """The real owner keeps much of it for the feed; the defaults would not."""
    path = tmp_path / "store"
    with lowtide.open(path, durability="relaxed", segment_bytes=1 << 20, feed_bytes=1 << 40) as store:
        for number in range(100):
            store.keyspace("many").put(b"%d" % number, bytes(900_000))
    assert sum(each.stat().st_size for each in (path / "log").glob("0*.log")) > 64 << 20
    for command in ("stats", "checkpoint", "gc", "compact"):
        assert invoke(command, path).exit_code == 0
    assert changes(path, "-n", 1)[0]["ts"] == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--since", "99"], "does not exist yet"),
        (["--since", "-1"], "at least 0"),
        (["--follow", "--until", "3"], "--until"),
        (["--limit", "0"], "--limit"),
        (["--before"], "before_images"),
    ],
)
def test_changes_that_cannot_be_shown_are_refused_as_wrong_usage(more: list[str], words: str, unowned: Path) -> None:
    result = invoke("changes", unowned, *more)
    assert result.exit_code == 2
    assert words in result.stderr


def test_consumers_are_shown_reset_and_removed(store: Path) -> None:
    found = document(invoke("consumers", store, "--json"))
    assert found["last_commit"] == 4
    (mirror,) = found["consumers"]
    assert (mirror["name"], mirror["position"], mirror["behind"], mirror["lost"]) == ("mirror", 1, 3, False)
    (reset,) = document(invoke("consumers", store, "--reset", "mirror", "--json"))["consumers"]
    assert reset["position"] == 4
    assert document(invoke("consumers", store, "--remove", "mirror", "--json"))["consumers"] == []
    missing = invoke("consumers", store, "--remove", "mirror")
    assert missing.exit_code == 1
    assert "no consumer 'mirror'" in missing.stderr
    assert document(invoke("consumers", store, "--json"))["consumers"] == []


@pytest.mark.parametrize("more", [["--to", "1"], ["--remove", "a", "--reset", "b"]])
def test_options_of_consumers_that_contradict_each_other_are_refused(more: list[str], unowned: Path) -> None:
    assert invoke("consumers", unowned, *more).exit_code == 2


def test_a_key_is_inspected_by_text_hex_or_base64(store: Path) -> None:
    for form in ("hex:00ff", "base64:AP8="):
        found = document(invoke("inspect", "key", store, "fruit", form, "--json"))
        assert found["key"] == {"base64": "AP8="}
        assert [each["begin"] for each in found["versions"]] == [2]
    text = invoke("inspect", "key", store, "fruit", "apple").stdout
    assert text.startswith("key apple of keyspace fruit: 2 versions\n")
    assert "the pin 'nightly'" in text
    assert invoke("inspect", "key", store, "fruit", "nowhere").stdout.endswith(": 0 versions\n")
    missing = invoke("inspect", "key", store, "vegetables", "apple")
    assert missing.exit_code == 2
    assert "there is no keyspace 'vegetables'" in missing.stderr


def test_a_backup_can_be_verified_but_is_not_opened_by_mistake(store: Path) -> None:
    copy = Path(f"{store}-copy")
    first = document(invoke("backup", store, copy, "--json"))
    assert (first["reaches"], first["base_copied"], first["path"]) == (4, True, str(copy))
    assert invoke("verify", copy).exit_code == 0
    assert invoke("inspect", "base", copy).exit_code == 0
    for command in ("stats", "pins", "checkpoint", "changes"):
        refused = invoke(command, copy)
        assert refused.exit_code == 2
        assert "is a backup" in refused.stderr
    again = document(invoke("backup", store, copy, "--json"))
    assert not again["base_copied"]


def test_a_backup_over_something_else_is_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "letter").write_text("dear")
    refused = invoke("backup", store, tmp_path / "notes")
    assert refused.exit_code == 2
    assert (tmp_path / "notes" / "letter").read_text() == "dear"


def test_compact_works_beside_a_service_and_its_readers(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with owner(path) as process, lowtide.open(path, read_only=True) as reader, lowtide.open(path) as joined:
        before = joined.stats().last_commit
        compacted = invoke("compact", path, "--json")
        assert compacted.exit_code == 0, compacted.stderr
        assert document(compacted)["owner"] == process.pid
        joined.keyspace("added").put(b"x", b"1")
        assert reader.keyspace("added").get(b"x") == b"1"
        assert joined.stats().last_commit == before + 1


def test_the_owner_is_named_and_what_it_does_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with owner(path) as process:
        found = document(invoke("stats", path, "--json"))
        assert found["owner"] == process.pid
        assert found["commits"] == 4
        (snapshot,) = document(invoke("snapshots", path, "--json"))["snapshots"]
        assert snapshot["ts"] == 3
        line = next(number for number, text in enumerate(OWNER.splitlines(), 1) if "store.snapshot()" in text)
        assert snapshot["where"].endswith(f":{line}")
        (pin,) = document(invoke("pins", path, "--json"))["pins"]
        assert (pin["ts"], pin["versions_held"]) == (3, 0)
        tell(process, "snapshot.close()")
        assert document(invoke("snapshots", path, "--json"))["snapshots"] == []
        assert document(invoke("checkpoint", path, "--json")) == {
            "path": str(path),
            "owner": process.pid,
            "boundary": 4,
        }
        (pin,) = document(invoke("pins", path, "--json"))["pins"]
        assert pin["versions_held"] == 1
        assert pin["bytes_held"] >= len("applered")
        assert "lowtide_commits_total" in invoke("metrics", path).stdout
        top = document(invoke("top", path, "--json", "--interval", "0.05"))
        assert top["live"]
        assert top["owner"] == process.pid
        assert top["commits_per_second"] == 0


def test_top_says_that_nobody_owns_the_store_and_leaves_it_alone(unowned: Path) -> None:
    before = {each: each.stat().st_mtime_ns for each in sorted(unowned.rglob("*"))}
    result = invoke("top", unowned, "--once")
    assert result.exit_code == 0
    assert "no process owns the store" in result.stdout
    assert {each: each.stat().st_mtime_ns for each in sorted(unowned.rglob("*"))} == before


@pytest.mark.parametrize("name", [name for name in EVERY if name != "inspect segment"])
def test_a_path_without_a_store_is_wrong_usage_and_stays_as_it_is(name: str, tmp_path: Path) -> None:
    missing, empty, file = tmp_path / "missing", tmp_path / "empty", tmp_path / "file"
    empty.mkdir()
    file.write_text("text")
    for path, words in ((missing, "does not exist"), (empty, "no Lowtide store"), (file, "is a file")):
        result = invoke(*arguments(name, path))
        assert result.exit_code == 2
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert result.stdout == ""
    assert not missing.exists()
    assert list(empty.iterdir()) == []


def test_a_segment_that_is_none_is_refused(tmp_path: Path) -> None:
    assert invoke("inspect", "segment", tmp_path / "missing").exit_code == 2
    (tmp_path / "letter").write_text("dear")
    result = invoke("inspect", "segment", tmp_path / "letter")
    assert result.exit_code == 1
    assert "not a log segment" in result.stderr
