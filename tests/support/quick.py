"""``pytest --quick``, for the inner loop: the tests that find most faults in a minute. ``make quick`` adds the
checkers.

Folders and files are chosen by cost: nothing that starts processes or Spark, kills processes, or explores schedules.
Properties are tried on a few examples, and isolation in one of its places.
"""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = 10
FOLDERS = ("unit", "isolation", "documents", "property", "garbage", "project")
SLOW = (
    "garbage/test_one_old_reader.py",
    "garbage/test_readers_at_random.py",
    "isolation/test_audited.py",
    "isolation/test_bank.py",
    "isolation/test_batches.py",
    "isolation/test_collections.py",
    "isolation/test_interrupted_commits.py",
    "project/test_examples.py",
    "project/test_habits.py",
    "project/test_package.py",
    "project/test_private_names.py",
    "project/test_run.py",
    "project/test_style.py",
    "property/test_changes.py",
    "property/test_pins_model.py",
    "property/test_store_under_scans.py",
    "unit/engine/checkpoint/test_helper.py",
    "unit/cli/test_commands.py",
    "unit/cli/test_documents.py",
    "unit/cli/test_extra.py",
    "unit/cli/test_first_day.py",
    "unit/cli/test_help.py",
    "unit/cli/test_pipeline_runs.py",
    "unit/cli/test_processes.py",
    "unit/cli/test_rdf.py",
    "unit/cli/test_shell.py",
    "unit/cli/test_transfer.py",
    "unit/pipeline",
    "unit/sharing/test_descriptors.py",
    "unit/spark",
    "unit/store/test_handover.py",
    "unit/documents/test_sql.py",
    "unit/documents/test_sql_streams.py",
    "unit/engine/transaction/test_cuts.py",
    "unit/engine/versions/test_deleted_keys.py",
)
"""In those folders, but not quick. The checkers of test_style run in parallel to the tests."""
PLACES = ("moving",)
"""Where the isolation tests run: in chains and base, with upkeep at each step. A run of all tests tries the other
places as well."""
TESTS = Path(__file__).resolve().parents[1]


def is_slow(path: Path) -> bool:
    """Whether a quick run leaves a file or a folder of the tests out."""
    within = path.relative_to(TESTS)
    if within == Path():
        return False
    return within.parts[0] not in FOLDERS or any(each.as_posix() in SLOW for each in (within, *within.parents))


def in_few_places(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the isolation tests in the other places."""
    asked = [getattr(item, "callspec", None) for item in items]
    others = [each is not None and each.params.get("world", PLACES[0]) not in PLACES for each in asked]
    config.hook.pytest_deselected(items=[item for item, is_other in zip(items, others, strict=True) if is_other])
    items[:] = [item for item, is_other in zip(items, others, strict=True) if not is_other]
