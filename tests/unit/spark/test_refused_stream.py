"""A stream that is refused says why when it is used, and not when it is made: see ``refused_stream``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

import lowtide
from lowtide.errors import UsageError
from lowtide.spark.source import LowtideSource
from lowtide.spark.stream import ChangeStream

USES: list[Callable[[DataSourceStreamReader], object]] = [
    lambda stream: stream.initialOffset(),
    lambda stream: stream.latestOffset(),  # type: ignore[call-arg]
    lambda stream: stream.partitions({}, {}),
    lambda stream: stream.read(InputPartition(None)),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("options", "why"),
    [({}, "readChangeFeed"), ({"readChangeFeed": "true", "endingVersion": "7"}, "endingVersion")],
)
def test_it_says_why_it_was_refused(
    store: lowtide.Store, use: Callable[[DataSourceStreamReader], object], options: dict[str, str], why: str
) -> None:
    given = {"path": str(store.path), "collection": "c", **options}
    stream = LowtideSource(given).streamReader(StructType([]))
    with pytest.raises(UsageError, match=why):
        use(stream)
    stream.stop()


def test_any_other_stream_is_one_of_changes(store: lowtide.Store) -> None:
    given = {"path": str(store.path), "collection": "c", "readChangeFeed": "true"}
    assert isinstance(LowtideSource(given).streamReader(StructType([])), ChangeStream)
