"""``Filter``: a compiled filter, with its predicate and the conditions for the planner."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.documents.filters.conditions import Condition
from lowtide.documents.filters.flat import Predicate
from lowtide.documents.filters.nodes import And, FilterNode, OnPath, Or
from lowtide.values.values import Document


@dataclass(slots=True, eq=False)
class Filter:
    """A compiled filter."""

    matches: Predicate
    """Whether a document matches."""
    conjuncts: tuple[Condition, ...]
    """Conditions that every matching document satisfies."""
    alternatives: tuple[Filter, ...]
    """The branches of a ``$or``, if the filter is only that and the conjuncts. Every match matches a branch."""
    complete: bool
    """Whether every document that satisfies the conjuncts matches."""
    root: FilterNode

    def position(self, document: Document) -> int | None:
        """Return the index of the first matching array element, for the positional ``$``.

        It is an index of the outermost array on the path of the last condition that went through an array.
        None if the document does not match, or if no condition went through an array.
        """
        return self.root.locate(document) if self.matches(document) else None


def filter_of(root: FilterNode) -> Filter:
    conjuncts: list[Condition] = []
    choices: list[Or] = []
    said = _conjoin(root, conjuncts, choices)
    alternatives = tuple([filter_of(each) for each in choices[0].children]) if said and len(choices) == 1 else ()
    return Filter(root.matches, tuple(conjuncts), alternatives, said and not choices, root)


def _conjoin(node: FilterNode, conjuncts: list[Condition], choices: list[Or]) -> bool:
    """Collect the conditions of ``node``. Returns whether conjuncts and choices express all of it."""
    if isinstance(node, And):
        said = [_conjoin(each, conjuncts, choices) for each in node.children]
        return all(said)
    if isinstance(node, OnPath):
        conjuncts += node.conditions
        return node.exact
    if isinstance(node, Or):
        choices.append(node)
        return True
    return False
