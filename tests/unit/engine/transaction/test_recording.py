"""Which version a recording says that a transaction has seen."""

from __future__ import annotations

from pathlib import Path

import lowtide
from lowtide.engine.transaction.recording import version_of
from tests.support.parts import parts_of


def test_of_equal_values_in_the_history_the_one_is_told_that_the_snapshot_sees(tmp_path: Path) -> None:
    """Index entries have equal values: one that is deleted and put again has two such versions."""
    with lowtide.open(tmp_path / "store") as store:
        entries, readers = store.keyspace("k"), []
        for _ in range(2):
            entries.put(b"key", b"value")
            readers.append(store.snapshot())
            entries.delete(b"key")
        store.checkpoint()
        parts = parts_of(store)
        full_key = parts.engine.catalog.prefix_of("k") + b"key"
        for reader in readers:
            assert reader.keyspace("k").get(b"key") == b"value"
            assert version_of(parts.reader, full_key, b"value", reader.ts, kept=True) == reader.ts
            reader.close()
