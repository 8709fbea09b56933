"""Threads that work on one store for a given time, started together, and the order in which stores take turns.

A step contains the loop over single operations, so the harness adds one list lookup and one method call to each of
them, the same for every store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle
from time import perf_counter
from typing import Any

from bench.peers import Peer, Session

Portion = Sequence[Any]
Step = Callable[[Portion], int]
"""Runs the operations of one portion; returns how many operations that were."""
Worker = Callable[[Session], tuple[Step, Sequence[Portion]]]
"""Prepares what one thread repeats, and the portions it goes through."""

_WARM_UP = 0.25  # as a share of the measured time
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Done:
    """What one thread has done."""

    operations: int
    warm_up: int
    started: float
    ended: float


def _repeat(step: Step, portions: Sequence[Portion], seconds: float) -> tuple[int, float, float]:
    """Repeat the step until the seconds are over; return the operations, the first moment and the last."""
    operations = 0
    started = perf_counter()
    deadline = started + seconds
    for portion in cycle(portions):
        operations += step(portion)
        now = perf_counter()
        if now >= deadline:
            break
    return operations, started, now


def run_together(peer: Peer, workers: Sequence[Worker], seconds: float) -> list[Done]:
    """Let each worker run in a thread of its own for the given time, after a warm-up that is not counted."""
    barrier = threading.Barrier(len(workers))

    def run(worker: Worker) -> Done:
        try:
            with closing(peer.session()) as session:
                step, portions = worker(session)
                # From the far end: what the warm-up brings into caches is not what the timed part asks for first.
                warm_up, _, _ = _repeat(step, portions[::-1], seconds * _WARM_UP)
                barrier.wait(_START_SECONDS)
                operations, started, ended = _repeat(step, portions, seconds)
        except BaseException:
            barrier.abort()
            raise
        return Done(operations, warm_up, started, ended)

    with ThreadPoolExecutor(len(workers)) as pool:
        return [future.result() for future in [pool.submit(run, worker) for worker in workers]]


def rate(threads: Sequence[Done]) -> float:
    """Operations per second of all of them together."""
    seconds = max(thread.ended for thread in threads) - min(thread.started for thread in threads)
    return sum(thread.operations for thread in threads) / seconds


def turns(names: Sequence[str], slow: Sequence[str], rounds: int, few: int) -> list[list[str]]:
    """The stores that are measured in each round, in order.

    Every store comes first, and after every other one, equally often. The slow ones take part in a few of the rounds,
    spread evenly over the run.

    >>> turns(["a", "b", "c"], ["c"], 4, 2)
    [['a', 'b', 'c'], ['b', 'a'], ['c', 'a', 'b'], ['a', 'b']]
    """
    chosen = {at * rounds // few for at in range(min(few, rounds))}
    plan = []
    for number in range(rounds):
        shift = number % len(names)
        order = (*names[shift:], *names[:shift])
        plan.append([name for name in order if name not in slow or number in chosen])
    return plan
