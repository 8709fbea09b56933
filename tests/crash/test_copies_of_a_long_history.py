"""LMDB's compacting copy of a table with sorted duplicates does not kill the process."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from tests.crash.stores import child
from tests.support.patience import PATIENCE

PROGRAM = """
import sys, lowtide

with lowtide.open(sys.argv[1], durability="relaxed", checkpointer="thread") as store:
    held = []
    for number in range(400):
        store.keyspace("k").put(b"key", b"%d" % number)
        held.append(store.snapshot())
        store.checkpoint()
    assert store.stats().history > 300
    if sys.argv[2] == "backup":
        store.backup(sys.argv[1] + " copy")
    else:
        store.compact()
    assert [int(each.keyspace("k").get(b"key")) for each in held] == list(range(400))
"""


@pytest.mark.parametrize("what", ["backup", "compact"])
def test_a_key_with_hundreds_of_old_versions_can_be_copied(tmp_path: Path, what: str) -> None:
    with child(PROGRAM, tmp_path / "store", what) as process:
        assert process.wait(PATIENCE) == 0
    if what == "backup":
        with lowtide.open(tmp_path / "store copy") as copy:
            assert copy.keyspace("k").get(b"key") == b"399"
            assert copy.verify().ok
