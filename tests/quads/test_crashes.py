"""After a power loss at any step, the indexes and the terms agree, and hold a prefix of the commits."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rdflib import Literal, URIRef

import lowtide
from lowtide.quads.checking import examine_quads
from lowtide.upkeep.verify import verify_files
from tests.crash.lives import every_lmdb_commit
from tests.crash.power import crashes, crashes_in_the_base
from tests.crash.stores import SMALL, Durability
from tests.support.attack import some
from tests.support.disks import RecordingDisk
from tests.unit.quads.terms import ANN, BOB, KNOWS, LIKES, LONG, G

QUICK = 15


def live(store: lowtide.Store, disk: RecordingDisk, durable: bool) -> list[frozenset[Any]]:
    """Adds, removals, collections of terms and checkpoints. Returns the statements after each commit."""
    states: list[frozenset[Any]] = [frozenset()]

    def done() -> None:
        states.extend([frozenset(store.quads("x").match())] * (store.stats().last_commit + 1 - len(states)))
        if durable:
            disk.note(("durable", store.stats().last_commit))

    quads = store.quads("x")
    for number in range(12):
        quads.add_many(
            [(URIRef(f"urn:{number}"), LIKES, Literal(f"a text of some length {number}")), (ANN, LIKES, LONG)]
        )
        done()
        if number % 3 == 2:
            quads.remove((URIRef(f"urn:{number - 1}"), None, None))
            done()
        if number == 5:
            store.checkpoint()
            store.collect_garbage()
            done()
    with store.transaction() as tx:
        tx.quads("x").remove((None, LIKES, LONG))
        tx.quads("x").add((BOB, KNOWS, LONG, G))
    done()
    store.collect_garbage()
    done()
    store.checkpoint()
    return states


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_indexes_and_terms_agree_after_any_power_loss(durability: Durability, tmp_path: Path) -> None:
    path = tmp_path / "store"
    disk = RecordingDisk(path / "base" / "data.mdb")
    options: dict[str, Any] = {**SMALL, "durability": durability}
    with every_lmdb_commit(disk), lowtide.open(path, **options, disk=disk) as store:
        disk.note(("durable", 0))
        states = live(store, disk, durability == "full")
        manifest = (path / "store.json").read_bytes()
    found = [each for each in (*crashes(disk.trace), *crashes_in_the_base(disk.trace)) if each.notes]
    assert len(found) > QUICK
    for crash in some(found, QUICK):
        copy = tmp_path / "crashed"
        shutil.rmtree(copy, ignore_errors=True)
        crash.materialise(copy, manifest)
        certain = max((note[1] for note in crash.notes if isinstance(note, tuple)), default=0)
        with lowtide.open(copy, **options) as opened:
            last = opened.stats().last_commit
            assert last >= certain, crash.how
            assert set(opened.quads("x").match()) == states[last], crash.how
            assert opened.verify().problems == [], crash.how
        assert verify_files(copy, (examine_quads,)).problems == []


PINNED = """
import sys, lowtide
with lowtide.open_snapshot(sys.argv[1], pin="p") as snapshot:
    quads = snapshot.quads("x")
    print(quads.count(), len(list(quads.match())), len(list(quads.graphs())), snapshot.list_quads())
"""


def test_another_process_reads_quads_at_a_pin(store: lowtide.Store) -> None:
    store.quads("x").add_many([(ANN, LIKES, LONG), (ANN, KNOWS, BOB, G)])
    store.pin("p")
    store.quads("x").clear()
    store.collect_garbage()
    done = subprocess.run([sys.executable, "-c", PINNED, str(store.path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 2 1 ['x']\n"


def test_a_backup_has_quads(store: lowtide.Store, tmp_path: Path) -> None:
    store.quads("x").add_many([(ANN, LIKES, LONG), (ANN, KNOWS, BOB, G)])
    store.backup(tmp_path / "backup")
    store.compact()
    assert store.quads("x").count() == 2
    with lowtide.open(tmp_path / "backup") as backup:
        assert set(backup.quads("x").match()) == set(store.quads("x").match())
        assert backup.verify().ok


def test_verify_finds_what_is_wrong_with_quads(store: lowtide.Store) -> None:
    store.quads("x").add_many([(ANN, LIKES, LONG), (ANN, KNOWS, BOB, G)])
    names = {store._backend.engine.catalog.prefix_of(name): name for name in store.keyspaces()}
    content = {prefix: dict(store.keyspace(name).scan()) for prefix, name in names.items()}

    def problems(content: dict[bytes, dict[bytes, bytes]]) -> int:
        return examine_quads(names, lambda prefix: iter(sorted(content.get(prefix, {}).items()))).found

    assert problems(content) == 0
    for prefix, name in names.items():
        for key in content[prefix]:
            broken = {**content, prefix: {each: content[prefix][each] for each in content[prefix] if each != key}}
            assert problems(broken) > 0, (name, key)
