"""Engines that are broken on purpose are convicted of the same anomalies when their histories are audited in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lowtide import Isolation
from lowtide.audit import Recorder, audit
from tests.conftest import OpenStore
from tests.isolation.recorded import Stage, crowd
from tests.isolation.test_convicted import CONVICTIONS, Break, no_validation_of_reads
from tests.unit.pipeline.audit.locally import Local


def rows_of(recorder: Recorder) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(row) for row in recorder.rows]


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
    store, recorder = open_store(), Recorder()
    stage = Stage(recorder, store, level)
    stage.fill(x=1, y=2, z=3)
    story(stage)
    found = Local(rows_of(recorder)).names
    assert expected in found
    assert found == set(audit(recorder.history(), level).names)


def test_a_crowd_convicts_it_too(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    no_validation_of_reads(monkeypatch)
    store, recorder = open_store(), Recorder()
    crowd(recorder, store, Isolation.SERIALIZABLE)
    pieces = Local(rows_of(recorder))
    assert "write-skew" in pieces.names
    assert pieces.names == set(audit(recorder.history()).names)
