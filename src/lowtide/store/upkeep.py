"""Upkeep of a store from any process that has it open: the owner does it, for itself and for joined processes."""

from __future__ import annotations

import os
from collections.abc import Callable

from lowtide.quads.checking import examine_quads
from lowtide.sharing.joined import Joined
from lowtide.store.access import Backend
from lowtide.upkeep import backup, inspect
from lowtide.upkeep import compact as compaction
from lowtide.upkeep.backup import BackupReport
from lowtide.upkeep.compact import CompactReport
from lowtide.upkeep.inspect import BaseReport, KeyReport
from lowtide.upkeep.report import VerifyReport
from lowtide.upkeep.verify import verify_store


def verify(backend: Backend) -> VerifyReport:
    if isinstance(backend, Joined):
        return backend.report("verify", VerifyReport)
    return verify_store(backend.running, (examine_quads,))


def inspect_key(backend: Backend, keyspace: str, key: bytes) -> KeyReport:
    if isinstance(backend, Joined):
        return backend.report("inspect_key", KeyReport, keyspace=keyspace, key=key)
    return inspect.inspect_key(backend.running, keyspace, key)


def inspect_base(backend: Backend) -> BaseReport:
    if isinstance(backend, Joined):
        return backend.report("inspect_base", BaseReport)
    return inspect.inspect_base(backend.running)


def back_up(backend: Backend, dest: str | os.PathLike[str], progress: Callable[[str], None] | None) -> BackupReport:
    if isinstance(backend, Joined):
        return backend.report("backup", BackupReport, dest=os.path.abspath(dest))
    return backup.back_up(backend.running, dest, progress)


def compact(backend: Backend) -> CompactReport:
    if isinstance(backend, Joined):
        return backend.report("compact", CompactReport)
    return compaction.compact(backend.running)
