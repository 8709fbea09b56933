"""The audit convicts engines that are broken on purpose of the right anomaly, with a witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lowtide import Isolation
from lowtide.audit import Recorder, Report, audit
from lowtide.engine.transaction import reads, scans, transaction
from lowtide.engine.transaction.read_set import RangeSet
from lowtide.engine.transaction.registration import Registration
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.transaction.validate import Validator
from lowtide.engine.versions.visibility import Reader
from tests.conftest import OpenStore
from tests.isolation import recorded
from tests.isolation.recorded import Stage, crowd

Break = Callable[[pytest.MonkeyPatch], None]


def no_validation_of_reads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Validator, "read_clash", lambda *_, **__: None)
    patch.setattr(Validator, "group_clash", lambda *_: None)


def no_first_committer_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Validator, "write_clash", lambda *_: None)
    patch.setattr(Validator, "group_clash", lambda *_: None)


def no_phantom_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RangeSet, "find", lambda *_: None)


def reads_of_the_last_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reader, "get", lambda self, key, _: self.get_latest(key))


def scans_of_many_instants(patch: pytest.MonkeyPatch) -> None:
    whole = scans.scan_latest

    def torn(*arguments: Any, **named: Any) -> Iterator[tuple[bytes, bytes]]:
        return whole(*arguments, **{**named, "one_snapshot": False})

    patch.setattr(reads, "scan_latest", torn)


def snapshots_from_before_the_last_commit(patch: pytest.MonkeyPatch) -> None:
    register = Registry.register

    def late(self: Registry, *arguments: Any) -> Registration:
        registration = register(self, *arguments)
        registration.ts = max(registration.ts - 1, 0)
        return registration

    patch.setattr(Registry, "register", late)


def own_writes_unseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        transaction.EngineTransaction,
        "read",
        lambda self, key: self.engine.reader.get(key, self.engine.registry.published),
    )


def seen_stale(stage: Stage) -> None:
    """Something is held, so that the versions from before the last commit are still there."""
    with stage.store.snapshot():
        with stage.begin() as tx:
            tx.put("w", 11)
        with stage.begin() as tx:
            tx.get("w")


def seen_own(stage: Stage) -> None:
    with stage.begin() as tx:
        tx.put("x", 11)
        tx.get("x")


CONVICTIONS = [
    (no_validation_of_reads, recorded.write_skew, Isolation.SERIALIZABLE, "write-skew"),
    (no_validation_of_reads, recorded.three_in_a_circle, Isolation.SERIALIZABLE, "G2-item"),
    (no_first_committer_wins, recorded.lost_update, Isolation.SNAPSHOT, "lost-update"),
    (no_first_committer_wins, recorded.lost_appends, Isolation.SNAPSHOT, "incompatible-order"),
    (no_phantom_check, recorded.write_skew_of_ranges, Isolation.SERIALIZABLE, "write-skew"),
    (no_phantom_check, recorded.three_in_a_circle_by_scan, Isolation.SERIALIZABLE, "G2"),
    (reads_of_the_last_commit, recorded.read_skew, Isolation.SNAPSHOT, "G-single"),
    (reads_of_the_last_commit, recorded.long_fork, Isolation.SNAPSHOT, "long-fork"),
    (scans_of_many_instants, recorded.fractured_scan, Isolation.SNAPSHOT_READ, "fractured-scan"),
    (snapshots_from_before_the_last_commit, seen_stale, Isolation.SNAPSHOT, "stale-read"),
    (own_writes_unseen, seen_own, Isolation.READ_COMMITTED, "internal"),
]


def told(open_store: OpenStore, story: Callable[[Stage], Any], level: Isolation) -> Report:
    store, recorder = open_store(), Recorder()
    stage = Stage(recorder, store, level)
    stage.fill(x=1, y=2, z=3)
    story(stage)
    return audit(recorder.history(), level)


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize(
    ("broken", "story", "level", "expected"), CONVICTIONS, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_a_broken_engine_is_convicted(
    open_store: OpenStore,
    monkeypatch: pytest.MonkeyPatch,
    broken: Break,
    story: Callable[[Stage], Any],
    level: Isolation,
    expected: str,
) -> None:
    broken(monkeypatch)
    report = told(open_store, story, level)
    assert expected in report.violations, str(report)
    assert report.of(expected)[0].startswith(expected)


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("story", [seen_stale, seen_own])
def test_the_engine_itself_is_not(open_store: OpenStore, story: Callable[[Stage], Any]) -> None:
    """The other stories are told to it in test_audited.py."""
    for level in Isolation:
        assert told(lambda level=level: open_store(level.value), story, level).names == []


@pytest.mark.parametrize(
    ("broken", "level", "expected"),
    [
        (no_validation_of_reads, Isolation.SERIALIZABLE, {"write-skew"}),
        (no_first_committer_wins, Isolation.SNAPSHOT, {"lost-update"}),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_crowd_convicts_a_broken_engine_too(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, broken: Break, level: Isolation, expected: set[str]
) -> None:
    """So the crowd of test_audited.py is one that can find something."""
    broken(monkeypatch)
    store, recorder = open_store(), Recorder()
    crowd(recorder, store, level)
    assert expected <= set(audit(recorder.history(), level).violations)
