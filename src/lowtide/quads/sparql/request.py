"""The arguments of a query or an update besides its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from rdflib.term import Identifier, Variable

from lowtide.quads.sparql.deadline import Deadline
from lowtide.system.clock import SYSTEM_CLOCK, Clock


class RequestOptions(TypedDict, total=False):
    """The keyword arguments of ``query``, ``explain`` and ``update``."""

    init_ns: Mapping[str, Any] | None
    """Prefixes."""
    init_bindings: Mapping[str, Identifier] | None
    """Values of variables."""
    default_union: bool
    """Whether the default graph is the union of all graphs."""
    base: str | None
    """What relative IRIs are relative to."""
    timeout: float | None
    """After how many seconds to give up with ``QueryTimeout``."""
    context: Identifier | None
    """The graph that is the default graph, instead of the store's."""
    clock: Clock
    """The clock of the timeout."""


_NONE: Final[Mapping[str, Any]] = {}


class SparqlRequest:
    """The options of one query or update. Its time begins when it is made."""

    __slots__ = ("base", "bindings", "context", "deadline", "default_union", "namespaces")

    def __init__(self, options: RequestOptions) -> None:
        self.namespaces = options.get("init_ns") or _NONE
        given = options.get("init_bindings")
        self.bindings: Mapping[Identifier, Identifier] = (
            {Variable(name): term for name, term in given.items()} if given else {}
        )
        self.default_union = options.get("default_union", False)
        self.base = options.get("base")
        self.context = options.get("context")
        self.deadline = Deadline(options.get("timeout"), options.get("clock", SYSTEM_CLOCK))
