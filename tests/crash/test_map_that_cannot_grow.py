"""If the system refuses to enlarge the map, the checkpoint fails and nothing else (K3)."""

from __future__ import annotations

from pathlib import Path

from tests.crash.stores import child, lines_of
from tests.support.patience import PATIENCE

PROGRAM = """
import json, resource, sys, lowtide

def tell(*values):
    print(json.dumps(values), flush=True)

store = lowtide.open(sys.argv[1], map_size=1 << 20, durability="relaxed", checkpointer="thread", cache_rows=1)
rows = store.keyspace("k")
rows.put(b"a", b"1")
rows.put(b"b", b"1")
store.checkpoint()
with store.transaction() as tx:
    for number in range(10_000):
        tx.keyspace("k").put(b"%05d" % number, b"v" * 200)
rows.put(b"b", b"1")  # into a segment of the log that has room for what follows
list(rows.scan())  # leaves memory for what follows
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 19), resource.RLIM_INFINITY))
for _ in range(2):
    try:
        store.checkpoint()
        tell("checkpoint", "no error")
    except lowtide.Error as error:
        tell("checkpoint", type(error).__name__)
tell("read", rows.get(b"a").decode(), len(list(rows.scan(stop=b"00100"))))
rows.put(b"b", b"2")
tell("written", rows.get(b"b").decode(), store.stats().checkpoint_failures)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.checkpoint()
tell("checkpointed", store.stats().boundary == store.stats().last_commit, len(list(rows.scan())))
store.close()
"""


def test_a_map_that_cannot_grow_fails_the_checkpoint_with_an_error_of_ours_and_the_store_goes_on(
    tmp_path: Path,
) -> None:
    with child(PROGRAM, tmp_path / "store") as process:
        told = list(lines_of(process))
        assert process.wait(PATIENCE) == 0
    checkpoint, again, read, written, checkpointed = told
    assert checkpoint[1] != "no error"
    assert again[1] != "no error"
    assert read == ["read", "1", 100]
    assert written == ["written", "2", 2]
    assert checkpointed == ["checkpointed", True, 10_002]


SMALL_SPACE = """
import json, resource, sys, lowtide

used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
with lowtide.open(sys.argv[1], checkpointer="thread") as store:
    store.keyspace("k").put(b"a", b"1")
    store.checkpoint()
    print(json.dumps([store.keyspace("k").get(b"a").decode()]), flush=True)
"""


def test_a_store_opens_with_a_smaller_map_where_there_is_no_room_for_the_usual_one(tmp_path: Path) -> None:
    with child(SMALL_SPACE, tmp_path / "store") as process:
        assert list(lines_of(process)) == [["1"]]
        assert process.wait(PATIENCE) == 0
