"""A step runs in a process of its own: a new one, or the fork that stands for it in these tests."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest

from bench.fresh import run
from tests.bench.conftest import run_in_a_fork


def own_id() -> int:
    return os.getpid()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("run", [run, run_in_a_fork])
def test_a_step_runs_elsewhere_and_may_be_killed_after_it(run: Callable[[str], tuple[int, str]], killed: bool) -> None:
    status, output = run(json.dumps([__name__, own_id.__name__, {}, killed]))
    assert status == (-signal.SIGKILL if killed else 0)
    assert json.loads(output) != os.getpid()


@pytest.mark.parametrize("run", [run, run_in_a_fork])
def test_a_step_that_fails_has_a_status_and_no_output(run: Callable[[str], tuple[int, str]]) -> None:
    assert run(json.dumps([__name__, own_id.__name__, {"nonsense": 1}, False])) == (1, "")
