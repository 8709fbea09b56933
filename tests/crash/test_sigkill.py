"""SIGKILL in a loop that writes two keyspaces in one transaction: nothing acknowledged is lost (K6)."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from tests.crash.stores import child, content_of, lines_of

PROGRAM = """
import json, sys, threading, lowtide

path, durability, checkpointer = sys.argv[1:4]
first, writers = map(int, sys.argv[4:])
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

for writer in range(writers):
    threading.Thread(target=write, args=(writer,), daemon=True).start()
threading.Event().wait()
"""

WRITERS = 3
ROUNDS = 4
LINES = 150


@pytest.mark.parametrize(
    ("durability", "checkpointer"), [("full", "thread"), ("relaxed", "thread"), ("relaxed", "process")]
)
def test_a_store_whose_owner_is_killed_again_and_again_holds_every_acknowledged_commit(
    tmp_path: Path, durability: str, checkpointer: str
) -> None:
    path = tmp_path / "store"
    last: dict[int, int] = dict.fromkeys(range(WRITERS), 0)
    timestamp = 0
    for round_ in range(ROUNDS):
        first = max(last.values())
        possible = dict.fromkeys(range(WRITERS), first + 1)
        with child(PROGRAM, path, durability, checkpointer, first, WRITERS) as process:
            heard = 0
            for writer, number in lines_of(process):
                last[writer], possible[writer] = number, number + 1
                heard += 1
                if heard == LINES * (1 + round_ % 3):
                    process.kill()  # what is still in the pipe was acknowledged too, and is heard before the loop ends
            assert heard >= LINES, "the child ended by itself"
        timestamp = check(path, last, possible, timestamp)


def check(path: Path, last: dict[int, int], possible: dict[int, int], timestamp: int) -> int:
    """What a new owner finds: of each writer the ``last`` acknowledged commit, or the one after it, which was
    ``possible``, under way when the process was killed; then that one is the last from now on. Returns the last
    timestamp."""
    found = []
    for _ in range(2):
        with lowtide.open(path, map_size=1 << 20) as store:
            content = content_of(store)
            found.append((content, store.stats().last_commit))
    assert found[0] == found[1], "opening it again changed something"
    content, last_commit = found[0]
    assert content["left"] == content["right"]
    for writer, number in list(last.items()):
        there = int(content["left"].get(b"%d last" % writer, b"0"))
        assert there in (number, possible[writer])
        last[writer] = there
        if there:
            slot = content["left"][b"%d at %d" % (writer, there % 50)]
            assert int(slot.rstrip(b".")) == there
    assert last_commit >= timestamp
    return last_commit
