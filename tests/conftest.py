"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

import lowtide
from lowtide.system.build import BUILD
from tests.compiled import is_left_out, leave_out
from tests.support.attack import FULL, SAMPLE
from tests.support.examples import few, third, with_fewer_examples
from tests.support.java import NO_JAVA
from tests.support.memory import keep_files_in_memory
from tests.support.quick import in_few_places, is_slow
from tests.support.spark_start import set_java_options
from tests.support.workers import OneSession, import_from_its_share, in_order, let_spark_go_first, needs_spark

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and processes that tests start and interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of processes: compiled code is kept, for them and for the next run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

set_java_options()

keep_files_in_memory()

hypothesis.settings.register_profile("lowtide", deadline=None, print_blob=True)
hypothesis.settings.load_profile("lowtide")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OpenStore = Callable[..., lowtide.Store]
SPARK = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
}
"""Settings for small queries. To compile one takes longer than to interpret it over some hundred rows, and so does to
plan it again after each shuffle, as the sessions of :mod:`tests.spark.programs.driver` do. What the session remembers
of a thousand queries would fill its heap."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only what takes a minute, for the inner loop")


def pytest_report_header() -> str:
    return "everything is tried" if FULL else f"sample {SAMPLE}: LOWTIDE_SAMPLE={SAMPLE} repeats it"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if BUILD == "compiled" and is_left_out(collection_path):
        return True
    return True if config.getoption("--quick") and is_slow(collection_path) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Without Python's cyclic collector: what is collected here stays, and the collector would visit it all again."""
    is_quick = session.config.getoption("--quick")
    gc.disable()
    try:
        import_from_its_share(session.config, leave_out=lambda path: is_quick and is_slow(path))
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        in_few_places(config, items)
        with_fewer_examples(items, few)
    elif not FULL:
        with_fewer_examples(items, third)
    if BUILD == "compiled":
        leave_out(config, items)
    in_order(items)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """As pytest does it, but a process of a test run tells the one above of a test that passed once, and not of its
    fixtures as well: most tests take less time than to tell that. Where times are asked for, all is told."""
    asked = item.config.option
    if not hasattr(item.config, "workerinput"):
        return None
    let_spark_go_first(item.nodeid)
    if asked.durations is not None or asked.xmlpath:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


_BETWEEN_FREEZES = 50
_finished = itertools.count(1)


def _freeze() -> None:
    """Exclude all existing objects from Python's cyclic collector. Thousands of tests, their modules and the reports of
    finished tests stay to the end, and tests ask for thousands of collections, which would each visit all of them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    _freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish() -> None:
    if next(_finished) % _BETWEEN_FREEZES == 0:
        _freeze()


@pytest.hookimpl(optionalhook=True)  # some tests run others in one process
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSession:
    return OneSession(config, log)


_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def _refuse_silence(report: _Report) -> _Report:
    """A test that is skipped shows nothing, so it fails; but for those of Spark where there is no Java."""
    if report.skipped and isinstance(report.longrepr, tuple) and NO_JAVA not in report.longrepr[2]:
        report.outcome = "failed"
        report.longrepr = f"skipped, which no test may be: {report.longrepr[2]}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _refuse_silence((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _refuse_silence((yield))


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """Opens stores in the test's directory (``name`` tells several apart) and closes them at the end.

    Relaxed durability unless the test asks for more: a killed process loses nothing by it, and tests are faster.
    """
    opened: list[lowtide.Store] = []

    def opener(name: str = "store", **options: Any) -> lowtide.Store:
        store = lowtide.open(tmp_path / name, **{"durability": "relaxed", **options})
        opened.append(store)
        return store

    yield opener
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    """An open, empty store."""
    return open_store()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test run. It must be begun in the project's own directory, where its processes find
    what tests and benchmarks import."""
    asking = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    assert needs_spark(asking), (
        f"tests.support.workers does not know that {asking} needs Spark: it starts a session more"
    )
    import lowtide.spark

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    settings = {**SPARK, "spark.sql.warehouse.dir": warehouse, "spark.local.dir": warehouse}
    session = lowtide.spark.session("local[2]", settings=settings)
    yield session
    session.stop()
