"""A stream that was refused: it raises the reason as soon as it is used.

PySpark 4.3 stops the reader of a stream when its process ends. If ``streamReader`` raises, there is no reader, and the
user sees an UnboundLocalError, with the reason above it in the traceback. An error of a method is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from lowtide.errors import Error


class RefusedStream(DataSourceStreamReader):
    """Raises ``error`` when any method is called."""

    def __init__(self, error: Error) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._refuse()
