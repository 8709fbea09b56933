"""A keyspace is emptied in the base only if no reader can see it, and nothing else of it is in the base and the log."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.engine.base.direct import put_entries
from lowtide.engine.garbage import emptying
from lowtide.engine.garbage.emptying import empty_keyspace
from lowtide.engine.garbage.horizon import Exact, make_horizon
from tests.support.parts import parts_of

KEYS = [b"%03d" % number for number in range(20)]
FOREVER = 1 << 40


@pytest.fixture
def prefix(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A keyspace with rows, between two others."""
    monkeypatch.setattr(emptying, "STEP", 7)
    for name in ("before", "k", "after"):
        store.keyspace(name).put(b"first", b"")
    store.checkpoint()
    prefix = parts_of(store).engine.catalog.prefix_of("k")
    put_entries(parts_of(store).base, prefix, KEYS, KEYS)
    return prefix


def sample(*live: int) -> Exact:
    return make_horizon("exact", live, FOREVER)


def test_all_rows_go_and_no_others(store: lowtide.Store, prefix: bytes) -> None:
    since = store.stats().last_commit
    assert empty_keyspace(parts_of(store).base, prefix, since, since + 1, sample)
    assert list(store.keyspace("k").scan()) == []
    for name in ("before", "after"):
        assert list(store.keyspace(name).scan()) == [(b"first", b"")]


@pytest.mark.parametrize("why", ["snapshot", "pin", "boundary", "log"])
def test_nothing_goes_that_may_be_needed(store: lowtide.Store, prefix: bytes, why: str) -> None:
    if why == "pin":
        store.pin("held", ttl=600)
    last = store.stats().last_commit
    since = last if why == "log" else last + 1
    if why != "boundary":
        store.keyspace("after").put(b"second", b"")
        store.checkpoint()
    live = (last,) if why == "snapshot" else (last + 1, last + 2)
    first_kept = 2 if why == "log" else FOREVER
    assert not empty_keyspace(parts_of(store).base, prefix, since, first_kept, lambda: sample(*live))
    assert len(list(store.keyspace("k").scan())) == 21
