"""Distributes the tests among the processes of a test run."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

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
_BY_FILE = ("tests/bench/test_report.py", "tests/bench/test_spark.py", "tests/unit/documents/test_sql_streams.py")
"""Where what the tests of a file share takes seconds to make."""

_OF_THE_SOURCE = (
    "tests/docs/test_design_page.py",
    "tests/project/test_habits.py",
    "tests/project/test_layers.py",
    "tests/project/test_package.py",
    "tests/project/test_private_names.py",
)
"""Tests of the parsed source of the whole project, which one process parses once."""


_OWN_SESSIONS = ("tests/spark/test_cluster.py",)
"""What starts sessions of its own, in other processes, and does not need that of the test run."""
_NO_SESSION = ("tests/spark/test_pipeline_replicate.py",)
"""Where few tests need a session, ..."""
_BUT = ("tests/spark/test_pipeline_replicate.py::test_a_bulk_load_is_followed",)
"""... and those that do."""


PAGES_WITH_SPARK = (
    "README.md",
    "docs/audit.md",
    "docs/howto/keep-history.md",
    "docs/howto/load-files.md",
    "docs/howto/time-travel.md",
    "docs/pipeline.md",
    "docs/spark.md",
)
"""The documents whose Python runs in the session of the test run."""
COMMANDS_WITHOUT_SPARK = ("replicate",)
"""Commands of the pipeline that start no Spark. The others find the session of the test run."""


def needs_spark(nodeid: str) -> bool:
    """Whether a test uses the session of the test run."""
    file, _, case = nodeid.partition("[")
    if file == "tests/docs/test_code_blocks.py::test_the_python_in_it_runs":
        return case.removesuffix("]") in PAGES_WITH_SPARK
    if file == "tests/docs/test_cli_page.py::test_an_example_prints_what_the_page_shows":
        return case.startswith("pipeline ") and not case.startswith(
            tuple(f"pipeline {c}" for c in COMMANDS_WITHOUT_SPARK)
        )
    if nodeid.startswith((*_OWN_SESSIONS, *_NO_SESSION)):
        return file in _BUT
    return nodeid.startswith("tests/spark/")


def in_order(items: list[pytest.Item]) -> None:
    """What needs Spark comes first, since it takes the longest."""
    items.sort(key=lambda item: not needs_spark(item.nodeid))


_LATER: Final = 5


@functools.cache
def _step_back() -> None:
    os.nice(_LATER)


def let_spark_go_first(nodeid: str) -> None:
    """Give way to Spark's tests in a process that runs other ones: those take turns with one session, so that they end
    last if they have to share the processors with all others."""
    if not needs_spark(nodeid):
        _step_back()


def from_its_share(items: Sequence[str], number: int, count: int) -> list[str]:
    """All of the items, from that on with which the share of process ``number`` among ``count`` begins.

    >>> from_its_share(["a", "b", "c", "d"], number=1, count=2)
    ['c', 'd', 'a', 'b']
    """
    first = len(items) * number // count
    return [*items[first:], *items[:first]]


def import_from_its_share(config: pytest.Config, leave_out: Callable[[Path], bool]) -> None:
    """Import the modules of tests in a process of a run of all tests, each process from another one on.

    Pytest compiles what it imports and keeps that in files. In a new clone, processes that import the same modules at
    the same time would all compile all of them. A module that cannot be imported is left to the collection to report.
    """
    own = getattr(config, "workerinput", None)
    if own is None or [Path(each).resolve() for each in config.args] != [config.rootpath / "tests"]:
        return
    paths = sorted((config.rootpath / "tests").rglob("test_*.py"))
    names = [
        ".".join(path.relative_to(config.rootpath).with_suffix("").parts)
        for path in paths
        if (path.parent / "__init__.py").exists() and not leave_out(path)
    ]
    for name in from_its_share(names, number=int(own["workerid"].removeprefix("gw")), count=own["workercount"]):
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


class OneSession(LoadScopeScheduling):  # type: ignore[misc]
    """Tests that need Spark go to one process of the test run, which starts with them because they take the longest. So
    there is only one session. All other tests go to the first free process: one by one if a test takes long, otherwise
    all cases of a test at once.

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
        if nodeid.startswith(_OF_THE_SOURCE):
            return "source"
        if nodeid.startswith((*_OWN_SESSIONS, *_BY_FILE)):
            return nodeid.partition("::")[0]
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
        """A test that ended its process has failed, and is not retried in the next one. The tests that were to follow
        are run there."""
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
