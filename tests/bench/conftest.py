"""Steps that the benchmarks run in new processes run in forks here, which start at once."""

from __future__ import annotations

import pytest

from bench import fresh
from tests.support.warm import start

SECTIONS = ("bench.growth", "bench.latency", "bench.memory", "bench.recovery")
"""Those that run steps in new processes."""


def run_in_a_fork(order: str) -> tuple[int, str]:
    """As :func:`bench.fresh.run`, but in a fork of a process that has imported Lowtide and the sections."""
    process = start("from bench.fresh import main; main()", imports=SECTIONS)
    try:
        process.stdin.write(order)
        process.stdin.close()
        output = process.stdout.read()
        return process.wait(), output
    finally:
        process.close()


@pytest.fixture(autouse=True)
def _in_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "run", run_in_a_fork)
