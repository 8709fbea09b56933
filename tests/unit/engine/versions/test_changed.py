"""The keys that changed after an instant, wherever their versions are."""

from __future__ import annotations

import lowtide
from lowtide.engine.types import Range, after_prefix
from lowtide.engine.versions.changed import all_changed_since
from lowtide.store.owned import OwnedStore


def test_all_keys_that_were_changed_or_deleted_are_found_before_and_after_a_checkpoint(store: lowtide.Store) -> None:
    keyspace, parts = store.keyspace("k"), store._backend
    assert isinstance(parts, OwnedStore)
    keyspace.put_many({bytes((each,)): b"old" for each in range(10)})
    store.keyspace("other").put(b"x", b"old")
    store.checkpoint()
    prefix = keyspace.prefix
    wanted = Range(prefix, after_prefix(prefix))
    with store.transaction() as writer:
        keyspace.put(b"\x03", b"new")
        keyspace.delete(b"\x05")
        keyspace.put(b"\x63", b"new")
        store.keyspace("other").put(b"x", b"new")
        expected = [prefix + b"\x03", prefix + b"\x05", prefix + b"\x63"]
        for _ in range(2):
            assert sorted(all_changed_since(parts.versions, parts.base, wanted, writer.ts)) == expected
            store.checkpoint()
        keyspace.put(b"\x01", b"new")  # some in the base, some above it
        expected.insert(0, prefix + b"\x01")
        assert sorted(all_changed_since(parts.versions, parts.base, wanted, writer.ts)) == expected
    assert all_changed_since(parts.versions, parts.base, wanted, store.stats().last_commit) == []
