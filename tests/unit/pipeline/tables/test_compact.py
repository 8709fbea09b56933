"""Which files a compaction takes: few enough, and often enough."""

from __future__ import annotations

import pytest

from lowtide.pipeline.tables.compact import (
    FAN,
    FEWEST_ROWS,
    MANY,
    TOO_MANY,
    files_to_compact,
    is_worth_it,
    runs_to_merge,
)
from lowtide.pipeline.tables.files import VersionFile


def file(name: str, rows: int = 1, size: int = 1000) -> VersionFile:
    return VersionFile(
        name=f"{name}.parquet",
        size=size,
        rows=rows,
        first_version=1,
        last_version=9,
        last_end=None,
        first_key="00",
        last_key="ff",
    )


def test_closed_files_are_left_alone_while_they_are_few() -> None:
    files = [file("tail-1"), file("open-1"), file("closed-a-1"), file("closed-b-1")]
    assert [each.kind for each in files_to_compact(files)] == ["tail", "open"]


def test_without_a_tail_there_is_nothing_to_do() -> None:
    assert files_to_compact([file("open-1"), file("open-2"), file("closed-a-1")]) == []


def test_runs_of_one_size_are_merged_with_smaller_ones_and_not_with_larger_ones() -> None:
    large = [file(f"closed-large-{part}", 1000 * FEWEST_ROWS) for part in range(9)]
    middle = [file(f"closed-middle{run}-1", 5 * FEWEST_ROWS) for run in range(FAN)]
    small = [file("closed-small-1", 3)]
    assert runs_to_merge([*large, *middle[1:], *small]) == []
    assert sorted(each.name for each in runs_to_merge([*large, *middle, *small])) == sorted(
        each.name for each in [*middle, *small]
    )


def test_history_is_written_again_a_logarithmic_number_of_times() -> None:
    """A thousand compactions of one size: the runs stay few, and each row is written a few times."""
    runs: dict[str, int] = {}
    written, rows = 0, FEWEST_ROWS
    for number in range(1000):
        merged = {each.run for each in runs_to_merge([file(f"{name}-1", count) for name, count in runs.items()])}
        size = rows + sum(runs.pop(name) for name in merged)
        runs[f"closed-{number}"] = size
        written += size
    assert sum(runs.values()) == 1000 * rows
    assert len(runs) <= 4 * FAN
    assert written <= 5 * 1000 * rows


@pytest.mark.parametrize(
    ("tails", "rows", "opened", "worth"),
    [
        (MANY - 1, 100, 1, False),
        (MANY, 100, 1, True),
        (MANY, 1, 10_000_000, False),
        (TOO_MANY, 1, 10_000_000, True),
    ],
)
def test_a_run_compacts_when_it_pays(tails: int, rows: int, opened: int, *, worth: bool) -> None:
    files = [file(f"tail-{number}", rows) for number in range(tails)]
    assert is_worth_it([*files, file("open-1", opened)]) is worth
    large = [file(f"tail-{number}", rows, 1 << 30) for number in range(tails)]
    assert not is_worth_it([*large, file("open-1", opened)])
