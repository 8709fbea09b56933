"""Finds the loads in a DataFrame's plan and releases their pins.

A Spark Connect session holds the plan with the options of each load, among them the token that ``lowtide.spark.read``
has added. In any other session the token is read from the JVM's object for each source, even if the load was made with
``spark.read``. The token exists once the load has been planned. Before that, a load holds no pin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from lowtide.errors import UsageError
from lowtide.spark.load_pin import leave
from lowtide.spark.options import LOAD, SparkOptions
from lowtide.spark.tables import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOKEN: Final = re.compile(rb"load-[0-9a-f]{16}")
_FORMAT: Final = "lowtide"


def release(df: DataFrame) -> int:
    """Release the snapshots of a DataFrame that will not be read again: those of every load in its plan.

    A pin that other loads share stays until they are released too. Returns the number of pins removed.

    Reading the DataFrame, or one derived from it, afterwards raises SnapshotExpired, unless a pin stayed. Without
    ``release``, a snapshot is kept for ``pinTtl`` seconds after the last read, and at most until the application exits.
    """
    plan = getattr(df, "_plan", None)
    jdf = getattr(df, "_jdf", None)
    if plan is not None:
        loads = set(_of_connect(plan.to_proto(df.sparkSession.client)))
    elif jdf is not None:
        loads = set(_of_classic(jdf.queryExecution().analyzed()))
    else:
        raise UsageError(f"release() takes a DataFrame, not {df!r}")
    return sum(leave(path, [token]) for path, token in sorted(loads))


def _of_connect(message: Any) -> Iterator[tuple[str, str]]:
    """Return the store and the token of each load in a plan of Spark Connect."""
    if message.DESCRIPTOR.full_name == "spark.connect.Read.DataSource":
        if message.format == _FORMAT and LOAD in message.options:
            yield str(SparkOptions(dict(message.options)).path), message.options[LOAD]
        return
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if isinstance(value, list) or hasattr(value, "append") else [value]:
                yield from _of_connect(each)


def _of_classic(analyzed: Any) -> Iterator[tuple[str, str]]:
    """Return the store and the token of each load in a JVM plan."""
    for node in _nodes(analyzed):
        if node.getClass().getSimpleName() != "DataSourceV2Relation" or node.table().name() != _FORMAT:
            continue
        made = _field(_field(node.table(), "ds"), "dataSourceInPython")
        found = None if made is None else _TOKEN.search(bytes(made.dataSource()))
        path = node.options().get("path")
        if path is None:
            table = table_of(StructType.fromJson(json.loads(node.schema().json())))
            path = (table or {}).get("path")
        if found is not None and path is not None:
            yield str(SparkOptions({"path": path}).path), found[0].decode()


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield a plan, its children, and the plans of its subqueries."""
    yield plan
    for inner in (plan.children(), plan.subqueries()):
        each = inner.iterator()
        while each.hasNext():
            yield from _nodes(each.next())


def _field(of: Any, name: str) -> Any:
    """Return a private field of a Java object."""
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)
