from __future__ import annotations

from pathlib import Path

import pytest

from bench import growth
from bench.section import Data
from tests.bench.support import check_shown, make_plan


def test_every_operation_is_measured_at_every_size(tmp_path: Path) -> None:
    data = growth.measure(make_plan(tmp_path), growth.Scale((200, 1_000), 1))
    costs = growth.costs(data)
    beside = {operation for operation in growth.OPERATIONS.values() if operation is not None}
    assert costs.keys() == {
        (store, operation, size)
        for store, operations in (("lowtide", set(growth.OPERATIONS)), ("lmdb", beside))
        for operation in operations
        for size in (200, 1_000)
    }
    assert all(cost > 0 for cost in costs.values())
    check_shown(growth.SECTION, data, tmp_path)


def grown(checkpoint: float, write_many: float, stats: float = 1.0) -> Data:
    """Everything costs one second at either size, but for what is given for the larger one."""
    larger = {("lowtide", "checkpoint"): checkpoint, ("lmdb", "write many"): write_many, ("lowtide", "stats"): stats}
    operations = [("lowtide", name) for name in growth.OPERATIONS]
    operations += [("lmdb", name) for name in set(growth.OPERATIONS.values()) if name is not None]
    samples = [
        [*place, size, 0, larger.get(place, 1.0) if size == 100 else 1.0] for place in operations for size in (10, 100)
    ]
    return {"loads": [["lowtide", size, 1.0] for size in (10, 100)], "samples": samples}


@pytest.mark.parametrize(
    ("data", "missed"),
    [
        (grown(2.9, 1.0), []),
        (grown(3.1, 1.0), ["checkpoint"]),
        (grown(5.9, 4.0), []),  # as much as LMDB's own
        (grown(6.1, 4.0), ["checkpoint"]),
        (grown(1.0, 9.0, stats=3.1), ["stats"]),  # which has no part in LMDB
    ],
)
def test_a_cost_that_grows_by_more_than_it_may_is_found(data: Data, missed: list[str]) -> None:
    assert [f.target.split(",")[0] for f in growth.SECTION.findings(data) if not f.met] == missed
