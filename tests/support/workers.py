"""How the tests are shared out among the processes of a test run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdist.scheduler.loadscope import LoadScopeScheduling


def needs_spark(nodeid: str) -> bool:
    return nodeid.startswith("tests/spark/") or nodeid.endswith(("[docs/spark.md]", "[README.md]"))


class OneSession(LoadScopeScheduling):  # type: ignore[misc]
    """What needs Spark goes to one process of the test run, which begins with it, since it takes the longest: so there
    is one session. Every other test goes to the process that is free first.

    The scheduler of xdist searches all tests, and counts all that were run, for each test: with one scope per test that
    is quadratic, half a minute for 13,000 of them. Here a lookup finds a test, and one that was run is forgotten.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._indexes: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if needs_spark(nodeid) else nodeid

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

    def _assign_work_unit(self, node: Any) -> None:
        scope, unit = self.workqueue.popitem(last=False)
        self.assigned_work[node].setdefault(scope, {}).update(unit)
        node.send_runtest_some([self._indexes[nodeid] for nodeid in unit])
