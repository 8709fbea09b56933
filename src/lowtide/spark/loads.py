"""The loads in a DataFrame's plan, and the release of their pins.

A session of Spark Connect has the plan with the options of each load, and ``lowtide.spark.read`` has put a token there.
Any other session is asked what its JVM keeps of each source: the token is in there, for a load in Spark's own words
too. It is there once the load has been planned; before that, a load keeps nothing.
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
    """Release the snapshots that are kept for a DataFrame that will not be read again: those of every load in its plan.
    A pin that other loads share stays until they are released, too. Returns how many pins were removed.

    Reading it, or what was made of it, afterwards raises SnapshotExpired, unless a pin stayed. Without this a snapshot
    is kept for ``pinTtl`` seconds after it was last read, and at most as long as the application.
    """
    plan = getattr(df, "_plan", None)
    jdf = getattr(df, "_jdf", None)
    if plan is not None:
        loads = set(_of_connect(plan.to_proto(df.sparkSession.client)))
    elif jdf is not None:
        loads = set(_of_classic(jdf.queryExecution().analyzed()))
    else:
        raise UsageError(f"release takes a DataFrame, not {df!r}")
    return sum(leave(path, [token]) for path, token in sorted(loads))


def _of_connect(message: Any) -> Iterator[tuple[str, str]]:
    """The store and the token of each load in a plan as Spark Connect sends it."""
    if message.DESCRIPTOR.full_name == "spark.connect.Read.DataSource":
        if message.format == _FORMAT and LOAD in message.options:
            yield str(SparkOptions(dict(message.options)).path), message.options[LOAD]
        return
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if isinstance(value, list) or hasattr(value, "append") else [value]:
                yield from _of_connect(each)


def _of_classic(analyzed: Any) -> Iterator[tuple[str, str]]:
    """The store and the token of each load in a plan of the JVM's."""
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
    """A plan, what it is made of, and the plans of its subqueries."""
    yield plan
    for inner in (plan.children(), plan.subqueries()):
        each = inner.iterator()
        while each.hasNext():
            yield from _nodes(each.next())


def _field(of: Any, name: str) -> Any:
    """A field of a Java object that its class keeps to itself."""
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)
