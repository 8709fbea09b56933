"""How the tests are shared out among the processes of a test run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

_ONE_BY_ONE = (
    "tests/bench/",
    "tests/crash/",
    "tests/mutants/",
    "tests/processes/",
    "tests/schedules/",
    "tests/unit/cli/",
)
"""Where one case of a test may take seconds."""


def needs_spark(nodeid: str) -> bool:
    return nodeid.startswith("tests/spark/") or nodeid.endswith(("[docs/spark.md]", "[README.md]"))


def in_order(items: list[pytest.Item]) -> None:
    """What needs Spark comes first."""
    items.sort(key=lambda item: not needs_spark(item.nodeid))


class OneSession(LoadScopeScheduling):  # type: ignore[misc]
    """What needs Spark goes to one process of the test run, which begins with it, since it takes the longest: so there
    is one session. All other tests go to the process that is free first: one by one where a test takes long, else all
    cases of a test at once.

    The scheduler of xdist searches all tests, and counts all that were run, for each test: with thousands of scopes
    that is quadratic, half a minute for 13,000 tests. Here a lookup finds a test, and one that was run is forgotten.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # the order is that of in_order
        self._indexes: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        if needs_spark(nodeid):
            return "spark"
        return nodeid if nodeid.startswith(_ONE_BY_ONE) else nodeid.partition("[")[0]

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if not self._indexes:
            self._indexes = {nodeid: index for index, nodeid in enumerate(collection)}

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        unit = self.assigned_work[node][scope]
        del unit[nodeid]
        if not unit:
            del self.assigned_work[node][scope]
        self._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        """A test that ended its process has failed, and is not tried again in the next one; what was to follow is."""
        units = self.assigned_work.pop(node)
        left: list[str] = [nodeid for unit in units.values() for nodeid in unit]
        if not left:
            return None
        del units[self._split_scope(left[0])][left[0]]
        self.workqueue.update({scope: unit for scope, unit in units.items() if unit})
        for other in self.assigned_work:
            self._reschedule(other)
        return left[0]

    def _assign_work_unit(self, node: Any) -> None:
        scope, unit = self.workqueue.popitem(last=False)
        self.assigned_work[node].setdefault(scope, {}).update(unit)
        node.send_runtest_some([self._indexes[nodeid] for nodeid in unit])
