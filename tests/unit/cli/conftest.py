"""Stores for the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.commands import make, make_shop


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is a terminal, whatever the environment says."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def unowned(tmp_path: Path) -> Path:
    """A store with some content that is not open."""
    return make(tmp_path / "store")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A store with three users that is not open."""
    return make_shop(tmp_path / "shop")
