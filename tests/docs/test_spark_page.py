"""docs/spark.md names every option, and its figures match the source."""

from __future__ import annotations

import pytest

from lowtide.sharing.loading.job import BULK_BYTES
from lowtide.spark import changes, inference, load_pin, partitions, stream_snapshot
from lowtide.spark.options import OPTIONS
from lowtide.spark.session import JAVA, PYSPARK
from lowtide.store.handover import TIMEOUT
from tests.docs.documents import ROOT, section, table, unwrapped

PAGE = ROOT / "docs" / "spark.md"


def test_the_table_of_options_is_that_of_the_source() -> None:
    rows = {row[0].strip("`"): row[1] for row in table(section(PAGE, "Options"))}
    assert rows == OPTIONS


@pytest.mark.parametrize(
    "words",
    [
        f"`pinTtl` seconds ({load_pin.TTL:,.0f} by default)",
        "`pinTtl` seconds (a day, for streams)" if stream_snapshot.TTL == 86_400 else "",
        f"{inference.SAMPLE:,} documents (`sampleSize`)",
        f"one up to {partitions.SMALL:,} rows",
        f"`commitTimeout` seconds ({TIMEOUT:.0f} by default)",
        f"({BULK_BYTES >> 20} MiB by default",
        f"more than {changes.SMALL >> 20} MiB of log",
        f"PySpark {PYSPARK[0]}.{PYSPARK[1]}, Java {JAVA[0]} or later",
    ],
)
def test_the_figure_is_that_of_the_source(words: str) -> None:
    assert words
    assert words in unwrapped(PAGE.read_text())
