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
"""Returns the conflict of a failed transaction with a description of its key, or as it is."""


Runner = TypeVar("Runner", bound=Statements, covariant=True)
ReadOnly = SnapshotStatements
"""Runs the statements of what can only be read: snapshots."""
ReadWrite = TransactionStatements | AutocommitStatements
"""Runs the statements of what can be written, too: transactions and the store."""


class Kind(ABC, Generic[Runner]):
    """A kind of data: the methods that open it, as a mixin of ``Transaction``, ``Snapshot`` and ``Store``.

    A subclass says ``reserves``, the prefixes of its keyspaces' names, each with the call that writes to them; and
    ``explains``, if it has more to say about a conflict on one of its keys than which key it was. What it opens on a
    snapshot may be another class than elsewhere: overload the method by ``Self[ReadOnly]`` and ``Self[ReadWrite]``.
    """

    __slots__ = ()

    def __init_subclass__(cls, *, reserves: Mapping[str, str] | None = None, explains: Explains | None = None) -> None:
        super().__init_subclass__()
        if reserves is not None:
            _registered[cls] = KindRegistration(reserves, explains)

    @abstractmethod
    def _statements(self) -> Runner:
        """Return what runs the statements of this transaction, snapshot or store."""


@dataclass(frozen=True, slots=True)
class KindRegistration:
    """What a store must know about a kind of data."""

    reserves: Mapping[str, str]
    explains: Explains | None


_registered: dict[type, KindRegistration] = {}


def registrations(kinds: type) -> Iterator[KindRegistration]:
    """The registrations of the kinds of data that a class is made of."""
    return (_registered[each] for each in kinds.__mro__ if each in _registered)
