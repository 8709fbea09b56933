"""The parts behind a store that this process owns, for tests that look inside."""

from __future__ import annotations

import shutil
from pathlib import Path

import lowtide
from lowtide.store.owned import OwnedStore


def parts_of(store: lowtide.Store) -> OwnedStore:
    parts = store._backend
    assert isinstance(parts, OwnedStore)
    return parts


def copy_as_crashed(store: lowtide.Store, path: Path, copy: Path) -> None:
    """Copy the files of an open store, as a crash at this moment would leave them."""
    parts = parts_of(store)
    with parts.checkpointer._busy, parts.collector._busy:  # a copy of LMDB's file in mid-commit is no crash
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("lock", "lock.mdb"))
