"""Child processes that read a store beside its owner. Each takes commands, one JSON value a line, and answers each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.warm import start

_PROGRAM = """
import itertools, json, os, sys, threading
import lowtide
from lowtide.sharing import generation, waiting

path, lease = sys.argv[1], float(sys.argv[2])
generation.LEASE = lease
waiting._SLICE = float(sys.argv[3])
open_now, scan = {}, None
seen, watching = [], None

def shown(change):
    return [change.ts, change.kind, change.key.hex(), change.value.hex() if change.value is not None else None]

def watch_on():
    try:
        seen.extend(shown(change) for change in open_now["watch"])
        seen.append("end")
    except lowtide.Error as error:
        seen.append(type(error).__name__)

def rows(snapshot, keyspace="k"):
    return [[key.hex(), value.hex()] for key, value in snapshot.keyspace(keyspace).scan()]

def perform(what, name=None, **more):
    global scan, watching
    if what == "own":
        open_now["store"] = lowtide.open(path, **more)
    elif what == "follow":
        open_now["store"] = lowtide.open(path, read_only=True)
    elif what == "snapshot":
        open_now["snapshot"] = lowtide.open_snapshot(path, pin=name)
        return open_now["snapshot"].ts
    elif what == "rows":
        return rows(open_now["snapshot"])
    elif what == "latest":
        with open_now["store"].snapshot() as snapshot:
            return [snapshot.ts, rows(snapshot)]
    elif what == "put":
        for key, value in more["entries"]:
            open_now["store"].keyspace("k").put(bytes.fromhex(key), bytes.fromhex(value))
    elif what == "pin":
        return open_now["store"].pin(name, **more).ts
    elif what == "unpin":
        return open_now["store"].unpin(name)
    elif what == "pins":
        return [pin.name for pin in open_now["store"].pins()]
    elif what == "compact":
        report = open_now["store"].compact()
        return [report.before, report.after]
    elif what == "add":
        def add(tx):
            counter = tx.keyspace("k")
            counter.put(b"n", b"%d" % (int(counter.get(b"n") or b"0") + 1))
        for number in range(more["times"]):
            open_now["store"].run(add)
            if number % more.get("pins", 1 << 30) == 0:
                with open_now["store"].pin(f"of {os.getpid()}", ttl=60) as pin:
                    with open_now["store"].snapshot(at=pin) as snapshot:
                        assert int(snapshot.keyspace("k").get(b"n")) > 0
    elif what == "forked":
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            open_now["store"].keyspace("k").put(b"of the child", b"1")
            os.write(there, json.dumps(len(list(open_now["store"].keyspace("k").scan()))).encode())
            os._exit(0)
        os.waitpid(child, 0)
        return json.loads(os.read(here, 100))
    elif what == "begin scan":
        scan = open_now["snapshot"].keyspace("k").scan()
        return next(scan)[0].hex()
    elif what == "end scan":
        return [key.hex() for key, _ in scan]
    elif what == "close":
        open_now.pop(name).close()
    elif what == "hold":
        open_now["snapshot"] = open_now["store"].snapshot()
        return open_now["snapshot"].ts
    elif what == "lease":
        generation.LEASE = more["seconds"]
    elif what == "commit for ever":
        for number in itertools.count(more["after"] + 1):
            open_now["store"].keyspace("k").put(b"%d" % (number % 5), b"%d" % number)
            print(number, flush=True)
    elif what == "changes":
        return [shown(change) for change in open_now["store"].changes(**more)]
    elif what == "consume":
        consumer = open_now["store"].consumer(name, more.get("since"))
        changes = [shown(change) for change in consumer.changes()]
        if changes and more.get("ack", True):
            consumer.ack(more.get("upto", changes[-1][0]))
        return changes
    elif what == "position":
        return open_now["store"].consumer(name).position
    elif what == "watch":
        open_now["watch"] = open_now["store"].watch(more.get("since"))
    elif what == "next":
        changes = []
        while not changes or changes[-1][0] < more["upto"]:
            changes.append(shown(next(open_now["watch"])))
            if name is not None and changes[-1][0] % 10 == 0:
                open_now["store"].consumer(name).ack(changes[-1][0])
        return changes
    elif what == "watch in a thread":
        watching = threading.Thread(target=watch_on, daemon=True)
        watching.start()
    elif what == "watched":
        watching.join(300)
        return [*seen, "still waiting"] if watching.is_alive() else seen

print("null", flush=True)
for line in sys.stdin:
    try:
        answer = {"value": perform(**json.loads(line))}
    except lowtide.Error as error:
        answer = {"error": type(error).__name__, "words": str(error)}
    print(json.dumps(answer), flush=True)
os._exit(0)
"""

LONG = 600.0
"""Seconds for which the owner is asked to wait at a time: so long that a slow machine does not count as polling."""


class Refused(Exception):
    """What the child's command raised; ``kind`` is the name of the error."""

    def __init__(self, kind: str, words: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {words}")


class Child:
    """A process, as the test talks to it."""

    def __init__(self, path: Path, lease: float) -> None:
        self.process = start(_PROGRAM, path, lease, LONG)
        assert self._answer() is None

    def _answer(self) -> Any:
        line = self.process.stdout.readline()
        assert line.endswith("\n"), "the process ended"
        return json.loads(line)

    def tell(self, what: str, **more: Any) -> None:
        """Give a command without waiting for its answer."""
        self.process.stdin.write(json.dumps({"what": what, **more}) + "\n")
        self.process.stdin.flush()

    def told(self) -> Any:
        """The answer to the oldest command that was not answered yet."""
        answer = self._answer()
        if "error" in answer:
            raise Refused(answer["error"], answer["words"])
        return answer["value"]

    def ask(self, what: str, **more: Any) -> Any:
        self.tell(what, **more)
        return self.told()

    def rows(self) -> dict[bytes, bytes]:
        """What its snapshot sees."""
        return {bytes.fromhex(key): bytes.fromhex(value) for key, value in self.ask("rows")}

    def latest(self) -> tuple[int, dict[bytes, bytes]]:
        """The content that its store sees now, and the commit that this content is of."""
        ts, rows = self.ask("latest")
        return ts, {bytes.fromhex(key): bytes.fromhex(value) for key, value in rows}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def children(path: Path, count: int = 1, lease: float = 30.0) -> Iterator[list[Child]]:
    """So many processes beside the store in ``path``, killed at the end."""
    started: list[Child] = []
    try:
        started.extend(Child(path, lease) for _ in range(count))
        yield started
    finally:
        for each in started:
            each.process.close()
