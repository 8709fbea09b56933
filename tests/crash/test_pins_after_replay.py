"""A pin shows the same instant after a recovery that replayed later commits."""

from __future__ import annotations

from pathlib import Path

import lowtide
from tests.crash.stores import SMALL, killed


def test_a_pin_sees_its_instant_after_commits_above_it_were_replayed(tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "store", **SMALL)
    rows = store.keyspace("k")
    rows.put(b"kept", b"1")
    rows.put(b"deleted", b"1")
    store.pin("p", ttl=10**6)
    rows.put(b"kept", b"2")
    rows.delete(b"deleted")
    path = killed(store.path, tmp_path / "killed")
    store.close()
    with lowtide.open(path, **SMALL) as again, again.snapshot(at="p") as snapshot:
        assert dict(snapshot.keyspace("k").scan()) == {b"kept": b"1", b"deleted": b"1"}
        assert snapshot.keyspace("k").get(b"kept") == b"1"
        assert snapshot.keyspace("k").get(b"deleted") == b"1"
