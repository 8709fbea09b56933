"""Bringing the base up to date from another process: whoever asks an owner that is just closing finds nobody there."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.sharing.owner import OwnerGone, reach_owner
from lowtide.store.owned import OwnedStore
from tests.conftest import OpenStore


def test_an_owner_that_is_closing_answers_nobody_any_more(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer would be that the store is closed, which is no news to somebody who can take it over."""
    store = open_store()
    owner = reach_owner(store.path)
    assert owner is not None
    assert owner.ask("checkpoint") == 0
    refuse, told = OwnedStore._refuse_everything, []

    def ask_when_refused(parts: OwnedStore, reason: str) -> None:
        refuse(parts, reason)
        with pytest.raises(lowtide.Error) as caught:
            owner.ask("checkpoint")
        told.append((caught.type, reach_owner(store.path)))

    monkeypatch.setattr(OwnedStore, "_refuse_everything", ask_when_refused)
    store.close()
    assert told == [(OwnerGone, None)]
    owner.close()


def test_a_snapshot_that_is_asked_of_a_closing_owner_is_had_by_taking_the_store_over(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.keyspace("k").put(b"x", b"1")
    checkpoint = OwnedStore.checkpoint

    def close_then_checkpoint(parts: OwnedStore, *, hurry: bool = False) -> None:
        monkeypatch.undo()
        parts.close()  # another thread of the owner does, just after the question came in
        checkpoint(parts, hurry=hurry)

    monkeypatch.setattr(OwnedStore, "checkpoint", close_then_checkpoint)
    with lowtide.open_snapshot(store.path) as snapshot:
        assert snapshot.keyspace("k").get(b"x") == b"1"
    assert parts_closed(store)


def parts_closed(store: lowtide.Store) -> bool:
    return bool(store._backend.closed)
