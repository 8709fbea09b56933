"""How many cases the property tests try: ``LOWTIDE_PROPERTIES=10 pytest tests/property`` tries ten times as many.

Each run tries different cases. ``make attack`` tries many.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SCALE = float(os.environ.get("LOWTIDE_PROPERTIES", "1"))

thorough = settings(max_examples=int(250 * SCALE))
"""For pure functions, which are cheap to try."""

with_files = settings(max_examples=max(1, int(60 * SCALE)), stateful_step_count=50)
"""For what opens files."""

whole_store = settings(
    max_examples=max(1, int(30 * SCALE)),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
"""For the whole store beside its model."""
