"""Kinds of data: only a kind itself writes its keyspaces, users see no full keys, and a new kind takes a folder and a
line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide import UsageError
from lowtide.documents.catalog import CATALOG

WRITES: dict[str, Callable[[Any], None]] = {
    "put": lambda keyspace: keyspace.put(b"a", b"b"),
    "put_many": lambda keyspace: keyspace.put_many({b"a": b"b"}),
    "delete": lambda keyspace: keyspace.delete(b"a"),
}
RESERVED = ("documents/x", "index/x", CATALOG, "lowtide/x")


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("write", WRITES)
def test_a_keyspace_of_a_kind_of_data_refuses_writes_and_can_be_read(
    store: lowtide.Store, name: str, write: str
) -> None:
    with store.transaction() as tx:
        for opened in (store, tx):
            keyspace = opened.keyspace(name)
            with pytest.raises(UsageError, match=rf"keyspace {name!r} is reserved: .* writes to it"):
                WRITES[write](keyspace)
            assert keyspace.get(b"a") is None
            assert list(keyspace.scan()) == []
    assert store.stats().last_commit == 0


@pytest.mark.parametrize("name", ["documents", "document/x", "indexes/x", "my/documents/x"])
def test_other_keyspaces_are_the_users(store: lowtide.Store, name: str) -> None:
    store.keyspace(name).put(b"a", b"b")
    with store.transaction() as tx:
        tx.keyspace(name).put(b"c", b"d")
    assert dict(store.keyspace(name).scan()) == {b"a": b"b", b"c": b"d"}


ENGINE_ONLY = {"apply", "give_way", "note_replaced", "read", "read_many", "rely_on", "scan", "write", "write_many"}


@pytest.mark.parametrize("shown", [lowtide.Transaction, lowtide.Snapshot, lowtide.Store])
def test_users_see_nothing_that_takes_full_keys(shown: type) -> None:
    assert ENGINE_ONLY.isdisjoint(dir(shown))


COUNTERS = '''
from lowtide.engine import Kind, PrefixOf, ReadView, Runner, WriteView


class Counters(Kind[Runner], reserves={"counters/": "store.increment(name)"}, explains=lambda error, tx: named(error)):
    """Named numbers, each under one key of the keyspace ``counters/all``."""

    __slots__ = ()

    def increment(self, name: str) -> int:
        def work(writing: WriteView, prefix_of: PrefixOf) -> int:
            key = prefix_of("counters/all") + name.encode()
            before = writing.read(key)
            value = int(before or b"0") + 1
            writing.apply({key: b"%d" % value}, (), {key: before})
            return value

        return self._statements().write(work)

    def count(self, name: str) -> int:
        def work(reading: ReadView, prefix_of: PrefixOf) -> int:
            return int(reading.read(prefix_of("counters/all") + name.encode()) or b"0")

        return self._statements().read(work)


def named(error):
    return error.naming(f"counter {error.key.decode()!r}")
'''

USED = """
import sys

import lowtide

with lowtide.open(sys.argv[1]) as store:
    assert [store.increment("a"), store.increment("a"), store.count("b")] == [1, 2, 0]
    tx, other, snapshot = store.begin(), store.begin(), store.snapshot()
    assert (tx.increment("a"), tx.count("a"), store.count("a")) == (3, 3, 2)
    assert other.increment("a") == 3
    tx.commit()
    try:
        other.commit()
    except lowtide.ConflictError as error:
        print(error)
    assert (store.count("a"), snapshot.count("a")) == (3, 2)
    for refused in (lambda: snapshot.increment("a"), lambda: store.keyspace("counters/all").put(b"a", b"9")):
        try:
            refused()
        except lowtide.UsageError as error:
            print(error)
    assert store.keyspace("counters/all").get(b"a") == b"3"
    store["trees"].insert_one({"_id": 1})
    with store.transaction() as tx:
        tx.increment("b")
        assert tx["trees"].count_documents({}) == tx.count("b") == 1
"""


def test_a_folder_and_a_line_add_a_kind_of_data(tmp_path: Path) -> None:
    """In a copy of the package: the kind is on the store, on transactions and on snapshots."""
    package = tmp_path / "source" / "lowtide"
    shutil.copytree(Path(lowtide.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "counters").mkdir()
    (package / "counters" / "__init__.py").write_text(COUNTERS)
    listed = package / "store" / "kinds.py"
    text = listed.read_text()
    assert text.count("    Collections[Runner],\n") == 1
    text = text.replace("    Collections[Runner],\n", "    Collections[Runner],\n    Counters[Runner],\n")
    at = text.index("from lowtide.documents")
    listed.write_text(f"{text[:at]}from lowtide.counters import Counters\n{text[at:]}")

    command = [sys.executable, "-B", "-c", USED, str(tmp_path / "store")]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    conflict, read_only, reserved = done.stdout.splitlines()
    assert "counter 'a'" in conflict
    assert "a snapshot is read-only" in read_only
    assert "only store.increment(name) writes to it" in reserved
