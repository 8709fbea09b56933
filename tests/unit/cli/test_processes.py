"""The command beside an owner, after one was killed or stopped, on damaged files, in pipes and in a terminal.

It runs in a separate process only where that matters: for exit codes, signals, pipes and terminals.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import Result

import lowtide
from lowtide.engine.recovery.opening import LOCK
from tests.crash.stores import child, wait_until
from tests.support.patience import PATIENCE
from tests.support.stopping import stopped
from tests.unit.cli.commands import (
    command,
    document,
    environment,
    go_away,
    invoke,
    make,
    owner,
    run,
    started,
    tell,
)

DIES = """
import os, sys
import lowtide

store = lowtide.open(sys.argv[1])
for number in range(20):
    store.keyspace("fruit").put(b"apple", b"%d" % number)
os._exit(0)
"""
"""An owner that leaves commits in the log, each known to be on disk, and makes no checkpoint."""


def silent(result: Result) -> None:
    """It failed with one line of words, and no trace."""
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("lowtide: ")


def test_it_works_beside_an_owner_and_after_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with owner(path) as process:
        assert document(run("stats", path, "--json"))["owner"] == process.pid
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
        assert invoke("verify", path).exit_code == 0
        assert {each: each.read_bytes() for each in path.rglob("*") if each.is_file()} == before
        found = document(invoke("stats", path, "--json"))
        assert (found["owner"], found["last_commit"], found["boundary"]) == (None, 4, 4)
        assert invoke("verify", path).exit_code == 0
        assert document(invoke("pins", path, "--json"))["pins"][0]["name"] == "nightly"
        lines = invoke("changes", path, "--json").stdout.splitlines()
        assert [json.loads(line)["ts"] for line in lines] == [1, 2, 3, 4]
        assert invoke("checkpoint", path).exit_code == 0
    with lowtide.open(path) as store:
        assert store.keyspace("fruit").get(b"apple") == b"yellow"


def test_an_owner_that_does_not_answer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store"
    names = ("stats", "pins", "verify", "checkpoint", "changes")
    with owner(path) as process:
        with stopped(process.pid):
            for name in names:
                result = invoke("--timeout", "0.2", name, path)
                silent(result)
                assert f"process {process.pid}" in result.stderr, name
                assert "does not answer" in result.stderr, name
            result = invoke("--timeout", "0.2", "insert", path, "trees", "{}")
            silent(result)
            assert "does not answer" in result.stderr
        assert [name for name in names if invoke(name, path).exit_code != 0] == []


def test_a_lock_whose_holder_does_not_listen_is_told_of(tmp_path: Path) -> None:
    path = make(tmp_path / "store")
    with open(path / LOCK, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = invoke("--timeout", "0.1", "checkpoint", path)
        silent(result)
        assert "is open for writing elsewhere" in result.stderr


def test_damage_is_told_without_a_trace_and_found_by_verify(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with child(DIES, path) as process:
        assert process.wait(PATIENCE) == 0
    segment = max((path / "log").glob("0*.log"))
    data = bytearray(segment.read_bytes())
    place = data.index(b"apple")
    data[place] ^= 0xFF
    segment.write_bytes(data)
    found = run("verify", path, "--json")
    assert found.returncode == 1
    assert not document(found)["ok"]
    assert document(found)["found"] >= 1
    words = invoke("verify", path)
    assert words.exit_code == 1
    assert "problem: " in words.stdout
    for name in ("stats", "checkpoint", "pins", "changes"):
        refused = invoke(name, path)
        silent(refused)
        assert str(segment) in refused.stderr


def test_wrong_usage_has_its_own_exit_code(tmp_path: Path) -> None:
    for arguments in (["nonsense"], ["stats"], ["stats", tmp_path, "--nonsense"], ["stats", tmp_path / "missing"]):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
    in_a_process = run(*arguments)
    assert (in_a_process.returncode, in_a_process.stdout, in_a_process.stderr) == (2, "", result.stderr)


def test_changes_that_are_followed_come_as_they_are_committed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with owner(path) as process, started("changes", path, "--follow", "--since", 4, "--json") as following:
        for number in range(3):
            tell(process, f"fruit.put(b'plum', b'{number}')")
            assert json.loads(following.stdout.readline())["value"] == str(number)
        following.process.send_signal(signal.SIGINT)
        ended = following.finish()
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
        assert document(invoke("pins", path, "--json"))["pins"][0]["name"] == "nightly"


def test_an_interrupt_ends_quietly_without_an_owner_too(unowned: Path) -> None:
    with started("changes", unowned, "--follow", "--since", 3) as following:
        assert "yellow" in following.stdout.readline()
        following.process.send_signal(signal.SIGINT)
        ended = following.finish()
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_reader_that_goes_away_ends_it_quietly(more: list[str], tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", durability="relaxed") as store, store.begin() as tx:
        for number in range(5000):
            tx.keyspace("many").put(b"%d" % number, b"x" * 50)
    with started("changes", tmp_path / "store", *more) as process:
        go_away(process)
    with lowtide.open(tmp_path / "store", read_only=True) as store:
        assert store.pins() == []


def test_a_short_output_that_nobody_reads_ends_quietly_too(unowned: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    result = subprocess.run(
        command("stats", unowned), stdout=write, stderr=subprocess.PIPE, check=False, env=environment()
    )
    os.close(write)
    assert (result.returncode, result.stderr) == (141, b"")


def test_top_once_prints_one_frame(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with owner(path) as process:
        result = invoke("top", path, "--once", "--interval", "0.05")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    lines = result.stdout.splitlines()
    assert lines[0] == f"{path}: owned by process {process.pid}"
    for label in (
        "commits/s",
        "conflicts/s",
        "versions in memory",
        "history",
        "log",
        "boundary lag",
        "last checkpoint",
    ):
        assert any(line.startswith(label) for line in lines), label
    assert any(line.startswith("nightly") for line in lines)


class Terminal:
    """The command in a terminal."""

    def __init__(self, *arguments: object) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment(), "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "40"},
        )
        os.close(slave)
        self.seen = ""

    def see(self, words: str) -> None:
        """Wait until ``words`` are shown, after what was waited for before."""
        wait_until(lambda: words in self._more())
        self.seen = self.seen.partition(words)[2]

    def _more(self) -> str:
        if select.select([self._master], [], [], 0)[0]:
            self.seen += os.read(self._master, 65536).decode(errors="replace")
        return self.seen

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def end(self) -> int:
        """Its exit code."""
        wait_until(lambda: self._ended())
        return self.process.wait()

    def _ended(self) -> bool:
        try:
            self._more()
        except OSError:  # the other end is closed
            return True
        return self.process.poll() is not None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def terminal(*arguments: object) -> Iterator[Terminal]:
    running = Terminal(*arguments)
    try:
        yield running
    finally:
        running.close()


def test_top_follows_the_store_from_owner_to_owner_until_q(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with owner(path) as first, terminal("top", path, "--interval", "0.05") as top:
        top.see(f"owned by process {first.pid}")
        top.see("versions in memory")
        first.kill()
        first.wait()
        top.see("no process owns the store")
        top.see("versions in memory")
        with subprocess.Popen(
            [sys.executable, "-c", "import lowtide, sys; s = lowtide.open(sys.argv[1]); input()", str(path)],
            stdin=subprocess.PIPE,
            env=environment(),
        ) as second:
            top.see(f"owned by process {second.pid}")
            second.communicate(b"\n")
        top.press("q")
        assert top.end() == 0


def test_top_ends_on_an_interrupt(unowned: Path) -> None:
    with terminal("top", unowned) as top:
        top.see("no process owns the store")
        top.process.send_signal(signal.SIGINT)
        assert top.end() == 130


def test_a_terminal_gets_a_table_in_colour(unowned: Path) -> None:
    with terminal("pins", unowned) as shown:
        shown.see("\x1b[1m")
        shown.see("nightly")
        assert shown.end() == 0


def test_commands_that_write_work_beside_a_running_service(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with owner(data) as service:
        assert invoke("insert", data, "users", '{"_id": 1, "age": 36}').exit_code == 0
        assert invoke("update", data, "users", '{"_id": 1}', '{"$inc": {"age": 1}}').exit_code == 0
        tell(service, "assert store['users'].find_one({'_id': 1}) == {'_id': 1, 'age': 37}")
        figures = document(invoke("stats", data, "--json"))
        assert [(each["pid"], each["role"]) for each in figures["processes"]] == [(service.pid, "owner")]
