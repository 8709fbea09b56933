"""Tests of the compiled build, and which of the others cannot apply to it; ``make test-compiled`` runs them on it.

``make test`` runs the tests of this folder on plain Python, where they hold as well. Compiled code has no lines that a
test could trace and no methods that it could replace, so a test that does either to a compiled module is left out.
"""

from __future__ import annotations

from typing import Final

import pytest

LEFT_OUT: Final[dict[str, str]] = {}
"""Tests, or files of tests, that are not run against a compiled build, and the reason for each."""


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot apply to a compiled build."""
    left = [item for item in items if any(is_of(item.nodeid, node) for node in LEFT_OUT)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def is_of(nodeid: str, node: str) -> bool:
    """Whether a test is ``node`` itself, a case of it, or in the file."""
    return nodeid == node or nodeid.startswith((f"{node}[", f"{node}::"))
