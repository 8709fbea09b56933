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
from tests.support.warm import Started

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


def run(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment(), **more
    )


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


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The command, running, with its output in pipes."""
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def go_away(process: subprocess.Popen[str]) -> None:
    """Read a line of a command that has more to print, and no more: it ends quietly, as other commands in pipes do."""
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(PATIENCE) == 141


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
