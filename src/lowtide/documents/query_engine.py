"""The DuckDB of this process, which runs queries over Arrow tables and datasets (extra ``sql``).

Opening a DuckDB takes 20 ms, longer than most queries. So a process opens one of each kind when it first needs it, and
each query gets its own connection. What a query registers or creates is temporary: other connections do not see it, and
it is dropped with the connection.

A forked child must not touch the DuckDB of its parent, whose threads it does not have. It opens its own, and never
frees the parent's: DuckDB aborts a process that destroys a database whose threads are gone.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
import weakref
from tempfile import mkdtemp
from typing import Any, Final

from lowtide.system.extras import require

_OPEN: Final = {"python_enable_replacements": "false"}
_CLOSED: Final = {
    **_OPEN,
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class _Engine:
    """An in-memory DuckDB. It spills to a directory of its own instead of the current one.

    ``_database`` only opens connections, under ``_opening``; no statement runs on it after ``__init__``.
    """

    def __init__(self, *, external: bool) -> None:
        self._opening = threading.Lock()
        duckdb = require("duckdb", "sql", "SQL")
        scratch = mkdtemp(prefix="lowtide-sql-")
        self._removal = weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        settings = {**(_OPEN if external else _CLOSED), "temp_directory": scratch}
        self._database = duckdb.connect(":memory:", config=settings)
        self._database.execute("set global TimeZone = 'UTC'")
        if not external:
            self._database.execute("set lock_configuration = true")

    def connection(self) -> Any:
        """Return a new ``DuckDBPyConnection``, which the caller closes."""
        with self._opening:
            return self._database.cursor()

    def abandon(self) -> None:
        """In a forked child: leave the scratch directory to the parent, and never destroy the database."""
        self._removal.detach()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._database))


_creating = threading.Lock()
_engines: dict[bool, _Engine] = {}
"""The engines, by whether files and the network can be accessed. Written under ``_creating``; entries are never
replaced."""


def connect(*, external: bool = False) -> Any:
    """Return a new ``DuckDBPyConnection`` to this process's DuckDB, which the caller closes. Times are in UTC.

    A query sees what is registered on its connection: no variables of the program, and without ``external`` no files,
    no network and no settings.

    >>> with connect() as connection:
    ...     connection.sql("select 6 * 7").fetchall()
    [(42,)]
    """
    engine = _engines.get(external)
    if engine is None:
        with _creating:
            engine = _engines.get(external) or _engines.setdefault(external, _Engine(external=external))
    return engine.connection()


def _abandon_after_fork() -> None:
    global _creating
    _creating = threading.Lock()  # another thread of the parent may have held it
    for engine in _engines.values():
        engine.abandon()
    _engines.clear()


os.register_at_fork(after_in_child=_abandon_after_fork)
