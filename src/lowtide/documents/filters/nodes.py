"""The nodes that a filter is compiled to: checks of one value, and predicates on documents made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.documents.filters.conditions import Condition
from lowtide.documents.filters.flat import Predicate
from lowtide.documents.filters.operators import Test
from lowtide.values.paths import MISSING, places_of, steps_of, values_of
from lowtide.values.values import Document


@dataclass(slots=True, eq=False)
class ConditionCheck:
    """The check of one operator at a path: one of the values there passes the test."""

    test: Test
    conditions: tuple[Condition, ...] = ()
    """The conditions that the planner can use."""
    exact: bool = False
    """Whether the conditions express the whole check."""
    expand: bool = True
    """Whether an array at the end of the path is also checked by its elements."""
    element: Callable[[Any], int] | None = None
    """For a check of whole arrays: returns the index of the element that passed."""
    field: Predicate | None = None
    """A faster check for a top-level field, if there is one."""


@dataclass(slots=True, eq=False)
class Negation:
    """Negates checks: at least one of them does not hold."""

    checks: tuple[ConditionCheck | Negation, ...]
    conditions: tuple[Condition, ...] = ()
    exact: bool = False


class FilterNode:
    """A part of a filter: a predicate on documents."""

    __slots__ = ("matches",)

    def __init__(self, matches: Predicate) -> None:
        self.matches = matches

    def locate(self, document: Document) -> int | None:
        """Return the index of the array element by which a matching document matches; None if there is none."""
        return None


class OnPath(FilterNode):
    """Applies a check at a path."""

    __slots__ = ("check", "conditions", "exact", "path")

    def __init__(self, path: str, check: ConditionCheck | Negation) -> None:
        super().__init__(_at_path(path, check))
        self.path = path
        self.check = check
        self.conditions = check.conditions
        self.exact = check.exact

    def locate(self, document: Document) -> int | None:
        check = self.check
        if isinstance(check, Negation):
            return None
        for value, element in places_of(document, steps_of(self.path), check.expand):
            if check.test(value):
                return check.element(value) if element is None and check.element is not None else element
        return None


class And(FilterNode):
    """Matches if all children match."""

    __slots__ = ("children",)

    def __init__(self, children: Sequence[FilterNode]) -> None:
        super().__init__(all_of([each.matches for each in children]))
        self.children = children

    def locate(self, document: Document) -> int | None:
        for each in reversed(self.children):
            found = each.locate(document)
            if found is not None:
                return found
        return None


class Or(FilterNode):
    """Matches if at least one child matches."""

    __slots__ = ("children",)

    def __init__(self, children: Sequence[FilterNode]) -> None:
        super().__init__(_any_of([each.matches for each in children]))
        self.children = children

    def locate(self, document: Document) -> int | None:
        return next(each.locate(document) for each in self.children if each.matches(document))


class Nor(FilterNode):
    """Matches if no child matches."""

    __slots__ = ()

    def __init__(self, children: Sequence[FilterNode]) -> None:
        matched = _any_of([each.matches for each in children])
        super().__init__(lambda document: not matched(document))


def on_value(checks: Sequence[ConditionCheck | Negation]) -> Test:
    """Return a test of whether one value passes all checks. An array is not expanded to its elements."""
    return all_of([_on_value(each) for each in checks])


def _on_value(check: ConditionCheck | Negation) -> Test:
    if isinstance(check, ConditionCheck):
        return check.test
    passed = on_value(check.checks)
    return lambda value: not passed(value)


def all_of(tests: Sequence[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    """Return a test that passes if all of the tests pass."""
    if not tests:
        return lambda _: True
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)

    def test(value: Any) -> bool:
        for each in tests:  # noqa: SIM110 -- a generator would take twice the time
            if not each(value):
                return False
        return True

    return test


def _any_of(tests: Sequence[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    if len(tests) == 1:
        return tests[0]

    def test(value: Any) -> bool:
        for each in tests:  # noqa: SIM110 -- as above
            if each(value):
                return True
        return False

    return test


def _at_path(path: str, check: ConditionCheck | Negation) -> Predicate:
    if isinstance(check, Negation):
        held = all_of([_at_path(path, each) for each in check.checks])
        return lambda document: not held(document)
    if check.field is not None:
        return check.field
    if "." in path:
        return _at_dotted(path, check)
    test = check.test
    if not check.expand:
        return lambda document: test(document.get(path, MISSING))

    def matches(document: Document) -> bool:
        value = document.get(path, MISSING)
        if type(value) is list:
            for each in value:
                if test(each):
                    return True
        return test(value)

    return matches


def _at_dotted(path: str, check: ConditionCheck) -> Predicate:
    steps = steps_of(path)
    names = [name for name, _ in steps]
    test, expand = check.test, check.expand

    def matches(document: Document) -> bool:
        value: Any = document
        for name in names:
            if type(value) is dict:
                value = value.get(name, MISSING)
            elif type(value) is list:
                break
            else:
                return test(MISSING)
        if type(value) is not list:
            return test(value)
        for value in values_of(document, steps, expand):  # noqa: SIM110 -- a generator would take twice the time
            if test(value):
                return True
        return False

    return matches
