"""What docs/file-format.md says about documents matches the source."""

from __future__ import annotations

import re

from lowtide.documents.catalog import CATALOG, DOCUMENTS, INDEXES, CatalogRow
from lowtide.documents.indexes import entries
from lowtide.documents.indexes.spec import Index
from lowtide.pipeline.replicate.replica import REPLICAS
from lowtide.sharing.loading.receipts import RECEIPTS, SERIES
from lowtide.values import cleaning, values
from tests.docs.documents import ROOT, section, table, unwrapped

PAGE = ROOT / "docs" / "file-format.md"


def named(text: str, heading: str) -> list[str]:
    """The names in the first column of the table with this heading."""
    rows = table(text[text.index(heading) :].partition("\n\n")[0])
    return [name for row in rows for name in re.findall(r"`([\w/]+)`", row[0])]


def test_the_keyspaces_are_named_as_the_source_names_them() -> None:
    expected = [CATALOG, f"{DOCUMENTS}NAME", f"{INDEXES}NAME/INDEX", RECEIPTS, SERIES, REPLICAS]
    assert named(section(PAGE, "Documents"), "| keyspace |") == expected


def test_each_field_of_a_row_and_of_an_index_is_told() -> None:
    text = section(PAGE, "Documents")
    assert named(text, "| field |") == list(CatalogRow.__struct_fields__)
    assert sorted(named(text, "| field of an index |")) == sorted(Index.__struct_fields__)


def test_each_extension_is_told() -> None:
    told = [int(row[0]) for row in table(section(PAGE, "Values"))]
    assert told == [-1, cleaning.BIG, cleaning.DECIMAL, cleaning.UUID_CODE, cleaning.NAIVE, cleaning.OFFSET]


def test_each_kind_of_value_is_told_in_order() -> None:
    rows = table(section(PAGE, "Keys"))
    ranks = sorted(set(values.RANKS.values()))
    assert [int(row[1].partition(",")[0], 16) >> 4 for row in rows] == ranks


def test_the_length_of_an_entry_is_that_of_the_source() -> None:
    text = unwrapped(section(PAGE, "Entries"))
    assert f"more than {entries.MAX_VALUES} bytes, they are truncated to the first {entries.CUT}" in text
    assert f"{entries._HASH}-byte BLAKE2b hash" in " ".join(text.split())
