"""A pytest plugin that replaces rdflib's Memory with Lowtide's store, and records the outcome of each test.

rdflib's tests make graphs with ``Graph()``, which takes the store named ``default``, and with ``Memory()``. Both are
replaced before a test is imported. Each such store has its own quads in one Lowtide store in a temporary directory.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import rdflib.plugin
import rdflib.plugins.stores.memory
from rdflib.store import VALID_STORE, Store
from rdflib.term import Identifier

import lowtide
from lowtide.rdf import LowtideStore

STORE = "LOWTIDE_SUITE_STORE"
OUTCOMES = "LOWTIDE_SUITE_OUTCOMES"
"""The environment: which store is tested, and the file that gets the outcomes."""

_outcomes: dict[str, str] = {}
_numbers = count()
_MEMORY = rdflib.plugins.stores.memory.Memory
_BLANK = re.compile(r"\bN[0-9a-f]{32}\b")
"""A blank node in the name of a test: another one in each run."""


def _open_store() -> lowtide.Store:
    directory = tempfile.mkdtemp(prefix="lowtide-suite-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    store = lowtide.open(directory, durability="relaxed", checkpointer="thread")
    atexit.register(store.close)
    return store


def pytest_configure(config: pytest.Config) -> None:
    plugins: dict[Any, Any] = rdflib.plugin._plugins
    for key in [("Oxigraph", Store), ("oxigraph", Store)]:  # rdflib's tests try every store that is installed
        plugins.pop(key, None)
    if os.environ[STORE] != "lowtide":
        return
    store = _open_store()

    class Substitute(LowtideStore):
        """Opened when it is made, as Memory is."""

        def __init__(self, configuration: Any = None, identifier: Identifier | None = None) -> None:
            super().__init__({"path": store, "name": f"g{next(_numbers)}"}, identifier)

        def open(self, configuration: Any, create: bool = False) -> int:
            return super().open(configuration, create) if not self.is_open else VALID_STORE

    Substitute.__name__ = _MEMORY.__name__  # which is a part of names of tests
    rdflib.plugins.stores.memory.Memory = Substitute  # type: ignore[assignment, misc]
    for name in ("default", "Memory"):
        plugins[name, Store].getClass()
        plugins[name, Store]._class = Substitute


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The worst of set-up, call and tear-down; an expected failure is none."""
    expected = hasattr(report, "wasxfail")
    outcome = ("xfailed" if report.skipped else "xpassed") if expected else report.outcome
    if report.when == "call" or outcome in ("failed", "skipped"):
        _outcomes[_BLANK.sub("BLANK", report.nodeid)] = outcome


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    rdflib.plugins.stores.memory.Memory = _MEMORY  # type: ignore[misc]
    Path(os.environ[OUTCOMES]).write_text(json.dumps(_outcomes))
