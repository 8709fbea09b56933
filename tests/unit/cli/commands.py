"""Runs the command line, in this process or in a separate one, and makes a store to run it on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import typer.main
import typer.testing
from typer.testing import CliRunner, Result

import lowtide
from lowtide.cli.app import app
from tests.crash.stores import child, lines_of
from tests.support.patience import PATIENCE
from tests.support.warm import Started, start

BINARY = b"\x00\xff"

OWNER = """
import json, sys
import lowtide
from tests.support.patience import PATIENCE

store = lowtide.open(sys.argv[1], durability="relaxed")
fruit = store.keyspace("fruit")
fruit.put(b"apple", b"red")
fruit.put(b"\\x00\\xff", b"\\x01")
fruit.put(b"pear", b"green")
snapshot = store.snapshot()
pin = store.pin("nightly", ttl=3600)
consumer = store.consumer("mirror", since=1)
fruit.put(b"apple", b"yellow")
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    exec(line)
    print(json.dumps("done"), flush=True)
store.close()
"""
"""An owner that has a snapshot, a pin and a consumer open, and then does what it is told, line by line."""


# A runner makes the commands of an application again for each call, which takes longer than most calls.
typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]


def invoke(*arguments: object, input: str | bytes | None = None) -> Result:
    """The command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=input)


_MAIN = "import sys; sys.argv[0] = 'lowtide'; from lowtide.cli import main; main()"


class Running:
    """The command in a process of its own, a fork that has imported the commands. Its output and errors are in
    pipes."""

    def __init__(self, *arguments: object) -> None:
        errors, there = os.pipe()
        try:
            self.process = start(_MAIN, *arguments, stderr=there, imports=("tests.unit.cli.warmed",))
        finally:
            os.close(there)
        self.stdout = self.process.stdout
        self.stderr = os.fdopen(errors)

    def finish(self) -> subprocess.CompletedProcess[str]:
        """What it prints until it ends. Few errors are expected: they fit into their pipe meanwhile."""
        out, err = self.stdout.read(), self.stderr.read()
        return subprocess.CompletedProcess([], self.process.wait(PATIENCE), out, err)

    def close(self) -> None:
        self.process.close()
        self.stderr.close()


@contextmanager
def started(*arguments: object) -> Iterator[Running]:
    """The command, running; killed at the end."""
    running = Running(*arguments)
    try:
        yield running
    finally:
        running.close()


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, to its end."""
    with started(*arguments) as running:
        return running.finish()


def environment() -> dict[str, str]:
    """In which this package is to be had."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "lowtide", *(str(each) for each in arguments)]


def document(result: Result | subprocess.CompletedProcess[str]) -> Any:
    """The one JSON document that a command printed."""
    assert "\n" not in result.stdout.rstrip("\n")
    return json.loads(result.stdout)


@contextmanager
def owner(path: Path) -> Iterator[Started]:
    """A process that owns the store in ``path``."""
    with child(OWNER, path) as process:
        assert next(lines_of(process)) == "ready"
        yield process


def go_away(running: Running) -> None:
    """Read a line of a command that has more to print, and no more: it ends quietly, as other commands in pipes do."""
    assert running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == ""
    assert running.process.wait(PATIENCE) == 141


def tell(process: Started, line: str) -> None:
    """Have the owner do something, and wait for it."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert next(lines_of(process)) == "done"


def make(path: Path) -> Path:
    """The store that the owner above has, closed."""
    with lowtide.open(path, durability="relaxed") as store:
        fruit = store.keyspace("fruit")
        fruit.put(b"apple", b"red")
        fruit.put(BINARY, b"\x01")
        fruit.put(b"pear", b"green")
        store.pin("nightly", ttl=3600)
        store.consumer("mirror", since=1)
        fruit.put(b"apple", b"yellow")
    return path


USERS: list[dict[str, Any]] = [
    {"_id": 1, "name": "Ada", "age": 36, "city": "Oslo"},
    {"_id": 2, "name": "Bob", "age": 41, "city": "Bergen", "joined": datetime(2026, 5, 1, 12, tzinfo=UTC)},
    {"_id": 3, "name": "Cleo", "age": 29, "city": "Oslo"},
]


def make_shop(path: Path) -> Path:
    """A store with documents, closed."""
    with lowtide.open(path, durability="relaxed") as store:
        users = store.collection("users")
        users.insert_many(USERS)
        users.create_index("city")
    return path
