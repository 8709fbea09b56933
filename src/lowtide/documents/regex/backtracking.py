"""Detects regular expressions that take exponential time in Python's ``re``, and matches them by an automaton instead.

An expression is exponential if it has a loop that some text can pass in two ways, and what follows the loop
can fail: each further character doubles the number of alternatives. To detect this, two walks over the
automaton of the expression run in parallel. An exponential expression is matched by the automaton
(``automaton.py``), any other by ``re``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from lowtide.documents.regex.automaton import CODES, PARSER, Automaton, AutomatonNode, Unsupported, parts_of

Search = Callable[[str], object]
"""Returns a truthy value if there is a match in a text."""

_SAMPLES: Final = " \t\n\r09azAZ_-.,;:/@#$%é߀٣\u00a0"
_MOST_STEPS: Final = 100_000
_FORBIDS: Final = frozenset((CODES.POSSESSIVE_REPEAT, CODES.ATOMIC_GROUP))
"""Parts that prevent backtracking: atomic groups and possessive quantifiers."""


WHY: Final = "it can take exponential time, because a repeated part can match in several ways"


class Explosive(Exception):
    """The expression may take exponential time, and the automaton does not support it."""


@lru_cache(maxsize=512)
def search_of(pattern: re.Pattern[str]) -> Search:
    """Return a function that searches a text for the pattern. Raises Explosive if none avoids exponential time."""
    if not is_explosive(pattern):
        return pattern.search
    try:
        return Automaton(pattern).found_in
    except Unsupported as error:
        raise Explosive(f"{WHY}, and {error}") from None


@lru_cache(maxsize=512)
def is_explosive(pattern: re.Pattern[str]) -> bool:
    """Whether ``re`` may take exponential time for the pattern.

    >>> [is_explosive(re.compile(each)) for each in ("^(a+)+$", "^(a|ab)*c", r"^(\\\\w+\\\\s)+$", "(a+)+")]
    [True, False, False, False]
    """
    if "(" not in pattern.pattern:  # repeating a part of variable length requires a group
        return False
    parts = parts_of(PARSER.parse(pattern.pattern, pattern.flags))
    if any(code in _FORBIDS for code, _ in parts):
        return False
    try:
        return _Ways(Automaton(pattern, rough=True), _alphabet(parts)).explode()
    except (Unsupported, _Enough):
        return True


def _alphabet(parts: list[tuple[Any, Any]]) -> list[str]:
    """Return sample characters: those in the expression, and their neighbours.

    If two character sets of the expression intersect, one of the samples is in both.
    """
    named = set(map(ord, _SAMPLES))
    for code, operand in parts:
        if code in (CODES.LITERAL, CODES.NOT_LITERAL):
            named.add(operand)
        elif code is CODES.IN:
            for kind, value in operand:
                if kind in (CODES.LITERAL, CODES.NOT_LITERAL):
                    named.add(value)
                elif kind is CODES.RANGE:
                    named.update(value)
    around = {code + step for code in named for step in (-1, 0, 1)}
    return [chr(code) for code in sorted(around) if 0 <= code <= 0x10FFFF]


class _Enough(Exception):
    """The expression is too large to analyze."""


class _Ways:
    """The paths through an automaton, from one state that consumes a character to the next."""

    def __init__(self, automaton: Automaton, alphabet: list[str]) -> None:
        self._end = automaton.end
        self._steps = 0
        places = [node for node in automaton.nodes if node.takes is not None]
        self._masks = {
            node.number: sum(1 << at for at, each in enumerate(alphabet) if node.accepts(each)) for node in places
        }
        self._ends: set[int] = set()
        """The states after which nothing more has to match."""
        self._follow = {node.number: self._after(node) for node in places}

    def _after(self, place: AutomatonNode) -> dict[int, int]:
        """Return the states that can follow, each with the number of paths to it: 1, or 2 for several.

        A path may pass a state twice, if it leaves a loop and enters it again.
        """
        found: dict[int, int] = {}
        stack: list[tuple[AutomatonNode, tuple[int, ...], bool]] = [(place.nexts[0], (), False)]
        while stack:
            self._count()
            node, passed, asserted = stack.pop()
            if node is self._end:
                if not asserted:
                    self._ends.add(place.number)
            elif node.takes is not None:
                found[node.number] = min(2, found.get(node.number, 0) + 1)
            elif passed.count(node.number) < 2:
                asserted = asserted or node.asserts is not None
                stack += [(each, (*passed, node.number), asserted) for each in node.nexts]
        return found

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _Enough

    def explode(self) -> bool:
        """Whether some text leads from a state back to it by two paths, and what follows can fail."""
        for place in self._follow:
            if place in self._loop(place):
                pairs = self._pairs_through(place)
                involved = {each for pair in pairs for each in pair}
                if self._ambiguous(pairs) and not involved <= self._ends:
                    return True
        return False

    def _loop(self, place: int) -> set[int]:
        """Return the states that are reachable from a state."""
        reached: set[int] = set()
        stack = list(self._follow[place])
        while stack:
            each = stack.pop()
            if each not in reached:
                self._count()
                reached.add(each)
                stack += self._follow[each]
        return reached

    def _pairs_through(self, place: int) -> set[tuple[int, int]]:
        """Return the pairs of states that one text leads to from ``place``, and from which one text leads back."""
        start = (place, place)
        nexts: dict[tuple[int, int], list[tuple[int, int]]] = {}
        stack = [start]
        while stack:
            pair = stack.pop()
            if pair not in nexts:
                nexts[pair] = self._next_pairs(pair)
                stack += nexts[pair]
        before: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for pair, following in nexts.items():
            for each in following:
                before.setdefault(each, []).append(pair)
        back = {start}
        stack = [start]
        while stack:
            for each in before.get(stack.pop(), ()):
                if each not in back:
                    back.add(each)
                    stack.append(each)
        return back

    def _next_pairs(self, pair: tuple[int, int]) -> list[tuple[int, int]]:
        found = []
        for first in self._follow[pair[0]]:
            for second in self._follow[pair[1]]:
                self._count()
                if self._masks[first] & self._masks[second]:
                    found.append((min(first, second), max(first, second)))
        return found

    def _ambiguous(self, pairs: set[tuple[int, int]]) -> bool:
        """Whether two paths diverge and meet again among these pairs."""
        if any(first != second for first, second in pairs):
            return True
        places = {first for first, _ in pairs}
        return any(ways > 1 and each in places for place in places for each, ways in self._follow[place].items())
