"""A kind of data: how it is opened on a transaction, a snapshot or the store, and which keyspaces are its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lowtide.engine.statements.runners import (
    AutocommitStatements,
    SnapshotStatements,
    Statements,
    TransactionStatements,
)
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.errors import ConflictError

Explains = Callable[[ConflictError, EngineTransaction], ConflictError]
"""Returns the conflict of a failed transaction with a description of its key, or unchanged."""


Runner = TypeVar("Runner", bound=Statements, covariant=True)
ReadOnly = SnapshotStatements
"""Runs the statements of a read-only view: a snapshot."""
ReadWrite = TransactionStatements | AutocommitStatements
"""Runs the statements of a writable view: a transaction or the store."""


class Kind(ABC, Generic[Runner]):
    """A kind of data: a mixin of ``Transaction``, ``Snapshot`` and ``Store`` with the methods that open it.

    A subclass declares ``reserves``, the name prefixes of its keyspaces, each with the call that writes to them. It
    declares ``explains`` if it can describe a conflict on one of its keys in more detail. A snapshot may open it as
    another class than a transaction does: overload the method by ``Self[ReadOnly]`` and ``Self[ReadWrite]``.
    """

    __slots__ = ()

    def __init_subclass__(cls, *, reserves: Mapping[str, str] | None = None, explains: Explains | None = None) -> None:
        super().__init_subclass__()
        if reserves is not None:
            _registered[cls] = KindRegistration(reserves, explains)

    @abstractmethod
    def _statements(self) -> Runner:
        """Return the object that runs the statements of this transaction, snapshot or store."""


@dataclass(frozen=True, slots=True)
class KindRegistration:
    """What a store must know about a kind of data."""

    reserves: Mapping[str, str]
    explains: Explains | None


_registered: dict[type, KindRegistration] = {}


def registrations(kinds: type) -> Iterator[KindRegistration]:
    """The registrations of all kinds of data that a class inherits from."""
    return (_registered[each] for each in kinds.__mro__ if each in _registered)
