"""The dataset of a query: which graphs its triple patterns are matched against."""

from __future__ import annotations

from dataclasses import dataclass

from rdflib.term import Identifier


@dataclass(frozen=True, slots=True)
class ActiveGraph:
    """What a triple pattern is matched against: the merge of some graphs.

    ``graphs`` are ids; None is every graph of the store. If there is a ``variable``, the graphs are not merged, and
    each solution binds it to the name of its graph; None then leaves out the default graph, which has no name.
    """

    graphs: tuple[int, ...] | None
    variable: Identifier | None = None

    @property
    def single(self) -> int | None:
        """The graph, if it is one and not named by a variable."""
        return self.graphs[0] if self.variable is None and self.graphs is not None and len(self.graphs) == 1 else None

    @property
    def merges(self) -> bool:
        """Whether a statement that is in several graphs must be counted once."""
        return self.variable is None and (self.graphs is None or len(self.graphs) > 1)


@dataclass(frozen=True, slots=True)
class QueryDataset:
    """The default graph of a query, and its named graphs; None is every named graph of the store."""

    default: ActiveGraph
    named: tuple[int, ...] | None = None

    def graph(self, number: int) -> ActiveGraph:
        """The named graph with this id; without statements if the dataset does not have it."""
        if self.named is not None and number not in self.named:
            return ActiveGraph(())
        return ActiveGraph((number,))

    def named_by(self, variable: Identifier) -> ActiveGraph:
        """Every named graph, its name bound to a variable."""
        return ActiveGraph(self.named, variable)
