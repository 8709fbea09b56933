"""Recorded histories of the engine show exactly what the level allows: with threads, during checkpoints and garbage
collections, across restarts, and with readers in other processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide import Isolation
from lowtide.audit import History, Recorder, audit
from lowtide.audit.levels import PROSCRIBED
from tests.conftest import OpenStore
from tests.crash.stores import child, lines_of
from tests.isolation.crowd import run_beside, run_together
from tests.isolation.recorded import STORIES, Stage, crowd

SMALL = {
    "checkpointer": "thread",
    "checkpoint_versions": 20,
    "collect_threshold": 1,
    "segment_bytes": 16384,
    "map_size": 1 << 20,
}


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns after a few bytecodes, not after thousands."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("level", Isolation)
def test_a_crowd_shows_nothing_that_its_level_proscribes(open_store: OpenStore, level: Isolation) -> None:
    store, recorder = open_store(**SMALL), Recorder()
    accepted: list[int] = []
    run_beside(
        lambda: accepted.append(crowd(recorder, store, level)),
        [store.checkpoint, lambda: void(store.collect_garbage())],
    )
    report = audit(recorder.history(), level)
    assert report.ok, str(report)
    assert report.committed == accepted[0] > 0
    assert level is not Isolation.SERIALIZABLE or report.names == []


def void(_: object) -> None:
    """Let a result go."""


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("level", Isolation)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
def test_a_story_shows_its_anomaly_at_the_levels_that_allow_it(
    open_store: OpenStore, story: Callable[[Stage], Any], level: Isolation
) -> None:
    name, shown_at = STORIES[story]
    store, recorder = open_store(), Recorder()
    stage = Stage(recorder, store, level)
    stage.fill(x=1, y=2, z=3)
    store.checkpoint()
    story(stage)
    with recorder.begin(store) as tx:
        tx.scan()
    report = audit(recorder.history(), level)
    assert (name in report.names) is (level in shown_at), str(report)
    assert report.ok, str(report)
    if level in shown_at:
        proscribing = next(each for each in Isolation if name in PROSCRIBED[each])
        assert name in audit(recorder.history(), proscribing).violations


def test_levels_that_are_mixed_keep_what_the_weakest_promises(open_store: OpenStore) -> None:
    store, recorder = open_store(**SMALL), Recorder()
    levels = [Isolation.READ_COMMITTED, Isolation.SNAPSHOT, Isolation.SERIALIZABLE]

    def work(seed: int) -> Callable[[], None]:
        return lambda: void(crowd(recorder, store, levels[seed], seed))

    run_together(*map(work, range(len(levels))))
    report = audit(recorder.history(), "read_committed")
    assert report.ok, str(report)


# Restarts

OWNER = """
import json, sys, random, threading
import lowtide
from lowtide.audit import Recorder

path, file, life, level = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
store = lowtide.open(path, durability="relaxed", checkpointer="thread", checkpoint_versions=20, segment_bytes=16384)
recorder = Recorder(file, prefix=f"life {life}, ")
sys.setswitchinterval(1e-4)
speaking = threading.Lock()

def work(thread):
    chance, number = random.Random(f"{life}/{thread}"), 0
    while True:
        tx = recorder.begin(store, level, session=f"{life}/{thread}")
        for key in chance.sample("abc", 2):
            tx.get(key)
        number += 1
        tx.put(chance.choice("abc"), f"{life}-{thread}-{number}")
        tx.append(chance.choice(("l1", "l2")), f"{life}-{thread}-{number}")
        try:
            tx.commit()
        except lowtide.ConflictError:
            pass
        with speaking:
            print(json.dumps(number), flush=True)

for thread in range(3):
    threading.Thread(target=work, args=(thread,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.parametrize("level", [Isolation.SNAPSHOT, Isolation.SERIALIZABLE])
def test_a_history_that_goes_on_after_kills_is_whole(tmp_path: Path, level: Isolation) -> None:
    store, file = tmp_path / "store", tmp_path / "history.jsonl"
    lives = 3
    for life in range(lives):
        with child(OWNER, store, file, life, level.value) as process:
            for heard, _ in enumerate(lines_of(process)):
                if heard == 60:
                    process.kill()
    with Recorder(file, prefix="after all, ") as recorder, lowtide.open(store) as opened, recorder.begin(opened) as tx:
        found = tx.scan()
    history = History.load(file)
    report = audit(history, level)
    assert report.ok, str(report)
    assert {str(value).partition("-")[0] for value in found["l1"]} == {str(life) for life in range(lives)}  # type: ignore[union-attr]
    assert report.committed > 60 * lives * 0.2


def test_a_commit_that_a_restart_lost_would_be_found(tmp_path: Path) -> None:
    """The test above would notice: a store that goes back to an older state is convicted by what was acknowledged."""
    recorder = Recorder()
    with lowtide.open(tmp_path / "store", durability="relaxed") as store:
        with recorder.begin(store) as tx:
            tx.append("l1", 1)
            tx.put("a", 1)
        store.backup(tmp_path / "old")
        with recorder.begin(store) as tx:
            tx.append("l1", 2)
            tx.put("a", 2)
    with lowtide.open(tmp_path / "old") as store, recorder.begin(store) as tx:
        tx.get("l1")
        tx.get("a")
    assert audit(recorder.history()).violations == ["stale-read"]


# Readers in other processes

READER = """
import json, sys
import lowtide
from lowtide.audit import Recorder

path, file = sys.argv[1:]
store = lowtide.open(path, read_only=True)
recorder = Recorder(file, prefix="follower ")
pins = Recorder(file, prefix="pin ")
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    pin = json.loads(line)
    if pin is None:
        break
    with recorder.begin(store, "serializable", session="follower", read_only=True) as tx:
        tx.scan()
        tx.get("l1")
    if pin:
        with lowtide.open_snapshot(path, pin=pin) as snapshot, pins.look(snapshot) as tx:
            tx.scan()
            tx.get("l2")
    print(json.dumps("seen"), flush=True)
store.close()
print(json.dumps("over"), flush=True)
"""


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("level", [Isolation.SNAPSHOT, Isolation.SERIALIZABLE])
def test_followers_and_pins_in_another_process_fit_into_the_history(
    open_store: OpenStore, tmp_path: Path, level: Isolation
) -> None:
    file = tmp_path / "history.jsonl"
    store = open_store(**SMALL)
    with Recorder(file) as recorder, child(READER, tmp_path / "store", file) as process:
        answers = lines_of(process)
        assert next(answers) == "ready"
        assert process.stdin is not None
        rounds = 0

        def look(pin: str | None) -> object:
            assert process.stdin is not None
            process.stdin.write(json.dumps(pin) + "\n")
            process.stdin.flush()
            return next(answers)

        def beside() -> None:
            nonlocal rounds
            rounds += 1
            if rounds % 5 == 1:
                store.pin("kept", ttl=600)
            assert look("kept" if 1 <= rounds % 5 <= 3 else "") == "seen"
            if rounds % 5 == 4:
                store.unpin("kept")

        with recorder.begin(store) as tx:
            tx.put("a", 0)
        run_beside(lambda: void(crowd(recorder, store, level)), [beside, store.checkpoint])
        assert look(None) == "over"
    report = audit(History.load(file), level)
    assert report.ok, str(report)
    names = [str(each) for each in report.transactions]
    assert sum(name.startswith("follower") for name in names) >= 2
    assert sum(name.startswith("pin") for name in names) >= 1
    assert level is not Isolation.SERIALIZABLE or report.names == []
