"""Decides whether the isolation levels allow the outcome of a schedule.

The log says what was committed, in which order. A model is built from it: the content after each commit. Everything
that the workers saw and returned is compared with the model, by the rules of docs/isolation.md alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowtide import Isolation
from lowtide.engine.types import KEYSPACE_PREFIX
from tests.schedules.program import Get, Scan
from tests.schedules.running import Content, Deed, Outcome, Run, Seen, Value
from tests.support.choices import Diverged
from tests.support.scheduler import Deadlock


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong with a run. ``kind`` is one word, by which the same fault is recognised in a smaller program."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def complaints(outcome: Outcome) -> list[Complaint]:
    """Everything that is wrong with a schedule."""
    if isinstance(outcome.error, Diverged):
        raise outcome.error
    if isinstance(outcome.error, Deadlock):
        return [Complaint("deadlock", str(outcome.error))]
    if outcome.error is not None:
        return [Complaint(f"raised {type(outcome.error).__name__}", repr(outcome.error))]
    assert outcome.run is not None
    return list(judge(outcome.run))


def judge(run: Run) -> Iterator[Complaint]:
    """Everything that is wrong with a run, most basic problems first."""
    stamps = [commit.ts for commit in run.commits]
    if stamps != list(range(run.first + 1, run.published + 1)):
        yield Complaint("log", f"the log has the commits {stamps}, not those from {run.first + 1} to {run.published}")
        return
    history = History(run)
    yield from history.problems
    for deed in run.deeds:
        yield from _judge_reads(deed, history)
        yield from _judge_end(deed, history)
    for problem in run.problems:
        yield Complaint("store", problem)


class History:
    """The content after each commit, and which worker committed it. Messages count commits from the first one of the
    schedule, so they are the same when it is repeated."""

    def __init__(self, run: Run) -> None:
        self.problems: list[Complaint] = []
        self._first = run.first
        self.states: dict[int, Content] = {run.first: run.before}
        self.changes: dict[int, dict[bytes, Value]] = {}
        content = dict(run.before)
        for commit in run.commits:
            writes = {key[KEYSPACE_PREFIX:]: value for key, value in commit.writes.items()}
            existed = bytes(key in content for key in writes)
            if commit.existed != existed:
                self.problems.append(
                    Complaint("kind", f"{self.name(commit.ts)} of {writes} says what existed was {commit.existed!r}")
                )
            self.changes[commit.ts] = writes
            merged = {**content, **writes}
            content = {key: value for key, value in merged.items() if value is not None}
            self.states[commit.ts] = content
        if run.content != content:
            self.problems.append(Complaint("content", f"the store shows {run.content}, the log makes {content}"))
        self._claim(run)

    def _claim(self, run: Run) -> None:
        """Every commit belongs to a worker, and every worker's commit exists."""
        free = dict(self.changes)
        direct = []
        for deed in run.deeds:
            if deed.outcome != "committed" or not deed.writes:
                continue
            if deed.level is None:
                direct.append(deed)
            elif free.pop(deed.commit, None) != deed.writes:
                self._complain(
                    deed, f"committed {deed.writes} at {self.name(deed.commit)}, where the log has something else"
                )
        for ts, writes in sorted(free.items()):
            # Equal writes, which can only be deletions, are attributed to the worker that ended first.
            able = [deed for deed in direct if deed.writes == writes and deed.begun < ts <= deed.ended]
            if able:
                direct.remove(min(able, key=lambda deed: deed.ended))
                del free[ts]
        for deed in direct:
            self._complain(deed, f"wrote {deed.writes}, and the log does not have it")
        for ts, writes in free.items():
            self.problems.append(Complaint("commit", f"{self.name(ts)} of {writes} has no worker: its own was refused"))

    def _complain(self, deed: Deed, text: str) -> None:
        self.problems.append(Complaint("commit", f"{deed.worker} {text}"))

    def name(self, *stamps: int) -> str:
        """Commits in words."""
        return ", ".join(f"commit +{ts - self._first}" for ts in stamps)

    def at(self, ts: int, seen: Seen) -> Value | tuple[tuple[bytes, bytes], ...]:
        """What the read should have returned after commit ``ts``."""
        merged = {**self.states[ts], **seen.own}
        if isinstance(seen.op, Get):
            return merged.get(seen.op.key)
        found = [(key, value) for key, value in merged.items() if value is not None and _within(seen.op, key)]
        return tuple(sorted(found, reverse=seen.op.reverse))

    def touching(self, keys: set[bytes], after: int, upto: int) -> list[int]:
        """The commits after ``after`` and up to ``upto`` that changed one of the keys."""
        return [ts for ts in range(after + 1, upto + 1) if not keys.isdisjoint(self.changes[ts])]


def _within(op: Scan, key: bytes) -> bool:
    return (op.start is None or key >= op.start) and (op.stop is None or key < op.stop)


def _judge_reads(deed: Deed, history: History) -> Iterator[Complaint]:
    """A snapshot always shows the last commit that was published when it began. Below SNAPSHOT, each read shows one
    commit that was the last one while it ran."""
    if deed.fixed and deed.drawn and not deed.begun <= deed.ts <= deed.drawn:
        yield Complaint(
            "begin", f"{deed.worker} drew {history.name(deed.ts, deed.begun, deed.drawn)}: not between these"
        )
        return
    for seen in deed.seen:
        allowed = [deed.ts] if deed.fixed else range(seen.since, seen.until + 1)
        if all(seen.found != history.at(ts, seen) for ts in allowed):
            wanted = " or ".join(repr(history.at(ts, seen)) for ts in allowed)
            name = history.name(*allowed)
            yield Complaint("read", f"{deed.worker} {seen.op} showed {seen.found!r}, not {wanted} ({name})")


def _judge_end(deed: Deed, history: History) -> Iterator[Complaint]:
    """The first committer wins, a serializable transaction could have run at the instant of its commit, and every
    refusal has a reason."""
    if deed.outcome == "committed" and deed.fixed and deed.writes:
        if lost := history.touching(set(deed.writes), deed.ts, deed.commit - 1):
            yield Complaint(
                "lost update",
                f"{deed.worker} put {deed.writes} at {history.name(deed.commit)} over {history.name(*lost)}, unseen",
            )
        if deed.level is Isolation.SERIALIZABLE:
            for seen in deed.seen:
                if seen.found != history.at(deed.commit - 1, seen):
                    yield Complaint(
                        "not serializable",
                        f"{deed.worker} {seen.op} showed {seen.found!r}, not so at {history.name(deed.commit)}",
                    )
    if deed.outcome == "open":
        yield Complaint("end", f"{deed.worker} never ended")
    if (error := deed.conflict) is not None and not _is_justified(deed, history):
        yield Complaint("refused", f"{deed.worker} was refused for nothing, because of {error.key!r}")


def _is_justified(deed: Deed, history: History) -> bool:
    error = deed.conflict
    assert error is not None
    if not deed.fixed or not deed.writes or error.snapshot_ts != deed.ts:
        return False
    if error.committed_ts <= deed.ts or error.key not in history.changes.get(error.committed_ts, ()):
        return False
    return error.key in deed.writes or (
        deed.level is Isolation.SERIALIZABLE and any(_covers(seen, error.key) for seen in deed.seen)
    )


def _covers(seen: Seen, key: bytes) -> bool:
    if isinstance(seen.op, Get):
        return seen.op.key == key and key not in seen.own
    return _within(seen.op, key)
