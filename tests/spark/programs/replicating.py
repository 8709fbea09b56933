"""Replicates a store, and kills itself at a step: ``python -m tests.spark.programs.replicating SOURCE DEST STEP``."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from lowtide import pipeline


def main(source: str, dest: str, fatal: int) -> None:
    steps = count()

    def step(words: str) -> None:
        if next(steps) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    pipeline.replicate(None, source, dest, batch_changes=3, progress=step)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
