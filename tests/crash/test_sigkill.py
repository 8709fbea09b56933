"""SIGKILL in a loop over two keyspaces that are written together: nothing acknowledged is lost (K6)."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from tests.crash.stores import child, content_of, lines_of

WRITERS = """
import json, sys, threading, lowtide

path, durability, checkpointer, first = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
store = lowtide.open(
    path,
    durability=durability,
    checkpointer=checkpointer,
    segment_bytes=16384,
    checkpoint_versions=200,
    map_size=1 << 20,
)
speaking = threading.Lock()

def write(writer):
    number = first
    while True:
        number += 1
        with store.transaction() as tx:
            for name in ("left", "right"):
                keyspace = tx.keyspace(name)
                keyspace.put(b"%d last" % writer, b"%d" % number)
                keyspace.put(b"%d at %d" % (writer, number % 50), b"%d" % number + b"." * (number * 7 % 300))
                keyspace.delete(b"%d at %d" % (writer, (number + 25) % 50))
        with speaking:
            print(json.dumps([writer, number]), flush=True)

for writer in range(3):
    threading.Thread(target=write, args=(writer,), daemon=True).start()
threading.Event().wait()
"""

ROUNDS = 4
LINES = 150


@pytest.mark.parametrize(
    ("durability", "checkpointer"), [("full", "thread"), ("relaxed", "thread"), ("relaxed", "process")]
)
def test_a_store_whose_owner_is_killed_again_and_again_holds_every_acknowledged_commit(
    tmp_path: Path, durability: str, checkpointer: str
) -> None:
    path = tmp_path / "store"
    last: dict[int, int] = {}
    timestamp = 0
    for round_ in range(ROUNDS):
        first = max(last.values(), default=0)
        with child(WRITERS, path, durability, checkpointer, first) as process:
            heard = 0
            for writer, number in lines_of(process):
                last[writer] = number
                heard += 1
                if heard == LINES * (1 + round_ % 3):
                    process.kill()  # what is still in the pipe was acknowledged too, and is heard before the loop ends
            assert heard >= LINES, "the child ended by itself"
        timestamp = check(path, last, timestamp)


def check(path: Path, last: dict[int, int], timestamp: int) -> int:
    """What a new owner finds; returns the last commit, which is later than all before."""
    found = []
    for _ in range(2):
        with lowtide.open(path, map_size=1 << 20) as store:
            content = content_of(store)
            found.append((content, store.stats().last_commit))
    assert found[0] == found[1], "opening it again changed something"
    content, last_commit = found[0]
    assert content["left"] == content["right"]
    for writer, number in last.items():
        there = int(content["left"][b"%d last" % writer])
        assert there in (number, number + 1), "acknowledged, or the one under way when the process was killed"
        slot = content["left"][b"%d at %d" % (writer, there % 50)]
        assert int(slot.rstrip(b".")) == there
    assert last_commit >= timestamp
    return last_commit
