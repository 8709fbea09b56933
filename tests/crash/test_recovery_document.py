"""docs/recovery.md names a test for each start-up case. Each named test exists, and no case is missing."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
DOCUMENT = (TESTS.parent.parent / "docs" / "recovery.md").read_text()


def names_in(*paths: Path) -> set[str]:
    return {name for path in paths for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}


def test_every_test_that_the_document_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT))
    assert len(named) > 25
    assert named <= names_in(*TESTS.glob("test_*.py"))


def test_every_start_up_case_is_in_the_document() -> None:
    assert names_in(TESTS / "test_startup_cases.py") <= set(re.findall(r"`(test_\w+)`", DOCUMENT))


def test_every_file_that_the_document_names_exists() -> None:
    root = TESTS.parent.parent
    for name in re.findall(r"`(tests/[\w/.]+|src/[\w/.]+)`", DOCUMENT):
        assert (root / name).exists(), name
    for name in re.findall(r"`(test_\w+\.py)`", DOCUMENT):
        assert (TESTS / name).exists(), name
