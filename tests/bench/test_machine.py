"""The description of the environment that a run was measured in."""

from __future__ import annotations

from pathlib import Path

import lowtide
from bench.machine import describe


def test_a_run_tells_which_lowtide_it_measured(tmp_path: Path) -> None:
    """Also where the sources are run as they stand, and no package is installed."""
    assert describe(tmp_path)["lowtide"] == lowtide.__version__
