"""How long a test waits for an expected event before it fails.

A passing test never waits that long, so the time is generous: ten times what the slowest machine needs under load.
LOWTIDE_PATIENCE is for runs in which something is known to be broken, such as the trials of mutants.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

PATIENCE = float(os.environ.get("LOWTIDE_PATIENCE", "300"))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for an expected event."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.001)
