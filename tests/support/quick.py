"""``pytest --quick``, for the inner loop: what finds most faults in a minute. ``make quick`` runs it with the checkers.

Folders and files are chosen by what they cost: nothing that starts processes or Spark, that kills or that explores.
Properties are tried on a few examples.
"""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

EXAMPLES = 10
FOLDERS = ("unit", "isolation", "documents", "property", "garbage", "project")
SLOW = (
    "garbage/test_one_old_reader.py",
    "isolation/test_audited.py",
    "isolation/test_bank.py",
    "isolation/test_batches.py",
    "isolation/test_collections.py",
    "project/test_examples.py",
    "project/test_package.py",
    "project/test_run.py",
    "project/test_style.py",
    "unit/engine/checkpoint/test_helper.py",
    "unit/cli/test_commands.py",
    "unit/cli/test_documents.py",
    "unit/cli/test_extra.py",
    "unit/cli/test_processes.py",
    "unit/cli/test_shell.py",
    "unit/cli/test_transfer.py",
    "unit/spark",
    "unit/store/test_handover.py",
    "unit/documents/test_sql.py",
    "unit/engine/transaction/test_cuts.py",
)
"""In those folders, but not quick; the checkers of test_style run beside the tests."""
TESTS = Path(__file__).resolve().parents[1]


def is_slow(path: Path) -> bool:
    """Whether a quick run leaves a file or a folder of the tests out."""
    within = path.relative_to(TESTS)
    return within != Path() and (within.parts[0] not in FOLDERS or within.as_posix() in SLOW)


def with_few_examples(items: list[pytest.Item]) -> None:
    """Have each property and each model among the tests tried on few examples, whatever it asks for itself."""
    for item in items:
        holders = (
            (getattr(item, "obj", None), "_hypothesis_internal_use_settings"),
            (getattr(item, "cls", None), "settings"),
        )
        for holder, name in holders:
            asked = getattr(holder, name, None)
            if isinstance(asked, hypothesis.settings) and asked.max_examples > EXAMPLES:
                setattr(holder, name, hypothesis.settings(asked, max_examples=EXAMPLES))
