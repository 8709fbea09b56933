"""Starts the processes of a soak, kills and restarts them, and compares what they report with the ledger."""

from __future__ import annotations

import json
import queue
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lowtide
from tests.soak.flatness import Samples, Verdict, anonymous_memory, bytes_below, judge
from tests.soak.ledger import Ledger
from tests.soak.process import Process, Told
from tests.soak.readers import tell_commits
from tests.soak.telling import Broken
from tests.soak.world import CONSUMERS, look

ROLES = ("follower", "follower", "pinner", "pinner", *CONSUMERS)
STALLED = 60.0
"""Seconds without an acknowledged commit, while an owner should live, that count as a hang."""
_ALONE = 3.0
"""Seconds for which an owner now and then has the store to itself."""
_SAMPLE_EVERY = 0.25
_TICK = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a soak: its minimum number of seconds and owners, its seed, its directory, and the broken engine, if
    any. A process lives for up to ``longest_life`` seconds after its first message."""

    seconds: float
    seed: int
    directory: Path
    fault: str = ""
    longest_life: float = 15.0
    owners: int = 1


@dataclass(slots=True)
class Result:
    """The result of a soak. ``broken`` is the violated invariant, if any; ``counts`` is what was done."""

    seed: int
    broken: Broken | None = None
    counts: Counter[str] = field(default_factory=Counter)
    flatness: list[Verdict] = field(default_factory=list)
    seconds: float = 0.0
    slowest_opening: float = 0.0

    @property
    def passed(self) -> bool:
        return self.broken is None and all(each.flat for each in self.flatness)


def random_options(chance: random.Random) -> dict[str, Any]:
    """The options of one life of the owner."""
    options: dict[str, Any] = {
        "durability": chance.choice(["full", "relaxed"]),
        "sync_interval": chance.choice([0.001, 0.05]),
        "checkpointer": chance.choice(["auto", "thread", "process"]),
        "collector": chance.choice(["exact", "exact", "exact", "watermark"]),
        "collect_threshold": chance.choice([1, 50, 1000]),
        "checkpoint_versions": chance.choice([50, 1000, 100_000]),
        "checkpoint_bytes": chance.choice([64 << 10, 1 << 20, 8 << 20]),
        "segment_bytes": chance.choice([16 << 10, 128 << 10, 1 << 20]),
        "cache_rows": chance.choice([1, 100, 100_000]),
        "map_size": chance.choice([1 << 20, 1 << 30]),
        "before_images": chance.random() < 0.5,
        "feed_bytes": chance.choice([0, 1 << 20]),
        "monitor_interval": 0.1,
    }
    if chance.random() < 0.2:
        options["max_snapshot_age"] = 1.0
    return options


class Director:
    """One soak from its first process to its last."""

    def __init__(self, plan: Plan, show: Callable[[Result, float], None] = lambda result, left: None) -> None:
        self._plan = plan
        self._show = show
        self._chance = random.Random(plan.seed)
        self._heard: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self._ledger = Ledger()
        self._samples = Samples()
        self._result = Result(plan.seed)
        self._processes: dict[int, Process] = {}
        """By place: 0 is the owner, the others follow the order of ROLES."""
        self._ends: dict[int, float] = {}
        """When a process is to be killed or asked to end; it has none after that, until it is started again."""
        self._starts: dict[int, float] = {}
        """When one that has ended is started again."""
        self._started = 0
        self._last_ack = 0.0

    def run(self) -> Result:
        began = time.monotonic()
        try:
            self._soak(began + self._plan.seconds)
            self._last_look()
            self._result.flatness = judge(self._samples)
        except Broken as broken:
            self._result.broken = broken
        finally:
            for process in self._processes.values():
                process.finish()
        self._result.seconds = time.monotonic() - began
        return self._result

    def _soak(self, deadline: float) -> None:
        self._start(0)
        while "opened" not in self._result.counts:  # the others need a store
            self._hear(deadline)
        self._starts |= dict.fromkeys(range(1, len(ROLES) + 1), 0.0)
        next_sample = 0.0
        while (now := time.monotonic()) < deadline or self._result.counts["opened"] < self._plan.owners:
            self._hear(now + _TICK)
            self.end_what_is_due(now)
            for place, start in list(self._starts.items()):
                if now > start:
                    del self._starts[place]
                    self._start(place)
            if now > next_sample:
                next_sample = now + _SAMPLE_EVERY
                self._sample()
                self._show(self._result, deadline - now)
            if now - self._last_ack > STALLED:
                self._stalled()

    # Lives

    def _start(self, place: int) -> None:
        plan, chance = self._plan, self._chance
        self._started += 1
        seed = chance.randrange(1 << 32)
        if place == 0:
            options = random_options(chance)
            role = "owner"
            command = ["tests.soak.owner", str(plan.directory), str(seed), json.dumps(options), plan.fault]
        else:
            role = ROLES[place - 1]
            command = ["tests.soak.readers", role, str(plan.directory), str(seed)]
        errors = plan.directory / f"{role} {place}.err"
        if place in self._processes:
            self._processes[place].finish()
        self._processes[place] = Process(role, command, errors, self._heard)
        # Some are killed while they still open the store; of the others see _take.
        early = self._started > 1 and chance.random() < 0.15
        self._ends[place] = time.monotonic() + chance.uniform(0.2, 0.8) if early else float("inf")
        self._last_ack = time.monotonic()

    def end_what_is_due(self, now: float) -> None:
        """End every process whose time is over. Ending the owner may end all readers too (see _leave_alone)."""
        for place, end in list(self._ends.items()):
            if now > end and place in self._ends:
                self._end(place)

    def _end(self, place: int) -> None:
        """Kill a process, most of the time; it is started again when it is gone."""
        process = self._processes[place]
        if place == 0 and self._chance.random() < 0.3:
            self._leave_alone()
        del self._ends[place]
        if self._chance.random() < 0.75:
            process.kill()
            self._result.counts[f"kills of {process.role}"] += 1
        else:
            process.ask_to_end()

    def _leave_alone(self) -> None:
        """Kill all readers; they are restarted when the next owner has had some time without them."""
        later = time.monotonic() + _ALONE
        for place in range(1, len(ROLES) + 1):
            if self._ends.pop(place, None) is not None:
                self._processes[place].kill()
                self._result.counts[f"kills of {self._processes[place].role}"] += 1
            self._starts[place] = later

    # What is told

    def _hear(self, until: float) -> None:
        """Process messages until then, or until there are no more."""
        try:
            told = self._heard.get(timeout=max(0.0, until - time.monotonic()))
            while True:
                self._take(told)
                told = self._heard.get_nowait()
        except queue.Empty:
            pass

    def _take(self, told: Told) -> None:
        process, kind, values = told
        counts, ledger = self._result.counts, self._ledger
        counts[kind] += 1
        if kind in ("opened", "reading"):
            self._is_open(process)
        match kind, values:
            case "ack", [thread, number, ts]:
                self._last_ack = time.monotonic()
                ledger.ack(thread, number, ts)
            case "opened", [last_commit, numbers, seconds]:
                self._result.slowest_opening = max(self._result.slowest_opening, seconds)
                ledger.opened(last_commit, dict(numbers))
            case "seen", [ts, digest]:
                ledger.seen(ts, digest)
            case "place", [name, position]:
                ledger.place(name, position)
            case "acked", [name, position]:
                ledger.acked(name, position)
            case "commit", [name, ts, numbers, digest]:
                ledger.commit(name, ts, dict(numbers), digest)
            case "broken", [invariant, found]:
                raise Broken(invariant, f"{process.role} {process.process_id}: {found}")
            case (("did" | "retried" | "refused"), [what]):
                counts[f"{kind}: {what}"] += 1
            case "end", [code]:
                self._ended(process, code)

    def _is_open(self, process: Process) -> None:
        """Its lifetime starts now. The second owner lives for a third of the soak: its memory is measured."""
        life = self._chance.uniform(0.1, 1.0) * self._plan.longest_life
        if process.role == "owner" and self._result.counts["opened"] == 2:
            life = max(life, self._plan.seconds / 3)
        for place, each in self._processes.items():
            if each is process and self._ends.get(place) == float("inf"):
                self._ends[place] = time.monotonic() + life

    def _ended(self, process: Process, code: int) -> None:
        process.ended = True
        if code and not process.killed:
            raise Broken("no process ends by itself", f"{process.role} ended with {code}: {process.last_words()}")
        places = [place for place, each in self._processes.items() if each is process]
        if places and places[0] not in self._ends:
            self._starts.setdefault(places[0], 0.0)

    def _stalled(self) -> None:
        owner = self._processes[0]
        owner.ask_where()
        time.sleep(1.0)
        raise Broken("commits go on", f"none for {STALLED:.0f} s; the owner's threads: {owner.last_words()}")

    def _sample(self) -> None:
        memory = anonymous_memory(self._processes[0].process_id)
        if memory is not None:
            self._samples.memory.setdefault(self._result.counts["opened"], []).append(memory)
        self._samples.disk.append(bytes_below(self._plan.directory / "store"))

    # The end

    def _last_look(self) -> None:
        """All processes end, the store is reopened, and everything that was ever reported must be there."""
        for process in self._processes.values():
            process.ask_to_end()
        deadline = time.monotonic() + STALLED
        while not all(process.ended for process in self._processes.values()):
            self._hear(deadline)
            if time.monotonic() > deadline:
                slow = [process for process in self._processes.values() if not process.ended]
                slow[0].ask_where()
                time.sleep(1.0)
                raise Broken("every process comes to an end", f"{slow[0].role}: {slow[0].last_words()}")
        for attempt in range(2):
            self._open_and_look(attempt)

    def _open_and_look(self, attempt: int) -> None:
        with lowtide.open(self._plan.directory / "store") as store:
            last_commit = store.stats().last_commit
            with store.snapshot() as snapshot:
                seen = look(snapshot, snapshot.ts)
            self._ledger.opened(last_commit, seen.numbers)
            self._ledger.seen(seen.ts, seen.digest)
            for name in CONSUMERS:
                consumer = store.consumer(name)
                self._ledger.place(name, consumer.position)
                last = tell_commits(name, consumer.changes(), self._ledger.commit)
                if last:
                    consumer.ack(last)
                    self._ledger.acked(name, last)
            if attempt:
                self._ledger.caught_up(last_commit)
            report = store.verify()
            if not report.ok:
                raise Broken("verify finds nothing", report)
