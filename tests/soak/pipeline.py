"""``python -m tests.soak.pipeline``: an archiver of a busy store, with kill -9 of driver, tasks and owner.

Each kill comes at a random moment of a run. At the end the archive is compared with a model of every commit. A driver
takes long to start, so it is killed less often than the others.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from rich.console import Console

from tests.spark.archive_kills import Kills
from tests.spark.processes import Drivers, programs_in

console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.pipeline", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    chance = random.Random(seed)
    console.print(f"seed {seed}: {options.kills} kills")
    with tempfile.TemporaryDirectory() as directory, programs_in(Path(directory)) as programs:
        kills = Kills(programs, Drivers(lambda: programs.driver("local[2]")), Path(directory), seed)
        for number in range(1, options.kills + 1):
            kills.strike(chance.choices(("task", "owner", "driver"), (5, 4, 1))[0])
            if number % 10 == 0:
                console.print(f"{number} kills: {kills.done}")
        steps = kills.finish(console.print)
    console.print(f"the archive has every one of {steps} steps, once, after {options.kills} kills (seed {seed})")


if __name__ == "__main__":
    main()
