"""How many examples are fuzzed: ``LOWTIDE_FUZZ=5000 pytest tests/fuzz`` tries 5,000 in each test, new ones each time.

Without it each test tries the same few examples, so that a run of all tests is short and repeatable.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_ASKED = os.environ.get("LOWTIDE_FUZZ")
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def _examples(few: int, phases: tuple[Phase, ...] = tuple(Phase)) -> settings:
    return settings(
        max_examples=int(_ASKED) if _ASKED else few,
        derandomize=_ASKED is None,
        database=None,
        phases=phases,
        suppress_health_check=_SLOW,
    )


pure = _examples(80)
"""For what only reads bytes."""

with_files = _examples(40)
"""For what reads files or asks another process."""

whole_store = _examples(10, (Phase.explicit, Phase.generate))
"""For what opens a store: what fails is small enough as it is, and looking for less would take minutes."""
