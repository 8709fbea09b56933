"""``python -m bench.origin``: the cost of recording where a transaction was begun.

``stats().snapshots`` names the line that opened each snapshot. For that, every begin asks for the frame of its caller,
unless ``snapshot_origins`` is off. Two stores, with and without it, take turns. A frame becomes a Python object when it
is first asked for. A function that begins one transaction, such as a request handler, pays for that at each begin. A
loop within one function pays once.
"""

import argparse
import gc
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Protocol

import lowtide

LIMIT = 0.05
"""If the cost is below this share of a begin, the option is not needed."""


class Begun(Protocol):
    def __exit__(self, kind: None, error: None, trace: None) -> None: ...


Begin = Callable[[], Begun]


def in_handlers(begin: Begin, count: int) -> float:
    """Seconds of a begin in its own function, including the call of that function."""

    def handle() -> Begun:
        return begin()

    begun: list[Begun | None] = [None] * count
    started = perf_counter()
    for index in range(count):
        begun[index] = handle()
    return _ended(begun, perf_counter() - started)


def in_a_loop(begin: Begin, count: int) -> float:
    """Seconds of a begin in a loop."""
    begun: list[Begun | None] = [None] * count
    started = perf_counter()
    for index in range(count):
        begun[index] = begin()
    return _ended(begun, perf_counter() - started)


def _ended(begun: list[Begun | None], seconds: float) -> float:
    """The time of each; the ends are not in it."""
    for each in begun:
        if each is not None:
            each.__exit__(None, None, None)
    return seconds / len(begun)


def compare(
    turn: Callable[[Begin, int], float], begins: Sequence[Begin], rounds: int, count: int
) -> tuple[float, float]:
    """The medians of the first and of the second begin, which take turns."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for index in (0, 1) if number % 2 else (1, 0):
            seconds[index].append(turn(begins[index], count))
    return median(seconds[0]), median(seconds[1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.origin", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="turns of each (default %(default)s)")
    parser.add_argument("--count", type=int, default=200, help="begins in a turn (default %(default)s)")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lowtide-bench-")))
        stores = [
            stack.enter_context(
                lowtide.open(place / str(kept), durability="relaxed", monitor_interval=3600, snapshot_origins=kept)
            )
            for kept in (True, False)
        ]
        for store in stores:
            store.keyspace("k").put(b"key", b"value")
        gc.disable()
        worst = 0.0
        for name, begins in (
            ("begin", [store.begin for store in stores]),
            ("snapshot", [store.snapshot for store in stores]),
        ):
            for title, turn in (("in a function of its own", in_handlers), ("in a loop", in_a_loop)):
                kept, dropped = compare(turn, begins, options.rounds, options.count)
                share = (kept - dropped) / kept
                worst = max(worst, share)
                print(
                    f"{name:<8} {title:<24} {kept * 1e9:6.0f} ns, {dropped * 1e9:6.0f} ns without origin: "
                    f"ratio {kept / dropped:.3f}, {share:.1%} of it"
                )
        gc.enable()
    print(f"at most {worst:.1%} of a begin; {'no switch needed' if worst < LIMIT else 'a switch'} from {LIMIT:.0%} on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
