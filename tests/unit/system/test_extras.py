"""An error names what is not installed, and the extra that installs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lowtide.errors import UsageError
from lowtide.system.extras import require


def test_a_package_that_is_there_is_imported() -> None:
    assert require("json.decoder", "arrow", "tables").JSONDecoder


def test_a_missing_package_is_a_usage_error_that_names_the_extra() -> None:
    with pytest.raises(UsageError, match=r"tables needs the package no_such_thing, .* pip install 'lowtide\[arrow\]'"):
        require("no_such_thing", "arrow", "tables")
    with pytest.raises(UsageError, match="pip install no_such_thing"):
        require("no_such_thing", None, "tables")


def test_a_package_that_misses_one_of_its_own_says_so_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import another_missing\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="another_missing"):
        require("half_installed", "arrow", "tables")
