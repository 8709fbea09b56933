"""Matches a regular expression by an automaton, in time linear in the length of the text.

Python's ``re`` backtracks while it holds the GIL. ``^(a+)+$`` takes exponential time on a text that does
not match, and blocks all threads. The automaton follows all alternatives at once. It tells only whether
there is a match. Single characters and assertions are matched by ``re``, so flags and categories have the
same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

PARSER: Final[Any] = import_module("re._parser")
_compiler: Final[Any] = import_module("re._compiler")
CODES: Final[Any] = import_module("re._constants")

MOST_NODES: Final = 10_000
_MANY: Final = 8
"""In a rough automaton, this number of repetitions or more counts as unbounded."""

_CHARACTERS: Final = frozenset((CODES.LITERAL, CODES.NOT_LITERAL, CODES.ANY, CODES.IN))
_ASSERTIONS: Final = frozenset((CODES.AT, CODES.ASSERT, CODES.ASSERT_NOT, CODES.FAILURE))
_LOOKS: Final = frozenset((CODES.ASSERT, CODES.ASSERT_NOT))
_REPEATS: Final = frozenset((CODES.MAX_REPEAT, CODES.MIN_REPEAT))
_BY_TEXT: Final = frozenset((CODES.GROUPREF, CODES.GROUPREF_EXISTS))


class Unsupported(Exception):
    """The automaton does not support the expression: it has a back-reference, for example, or is too large."""


class AutomatonNode:
    """A state of the automaton.

    It consumes a character, or makes an assertion, or has transitions that consume nothing. The final
    state has none of these.
    """

    __slots__ = ("_known", "asserts", "nexts", "number", "takes")

    def __init__(self, number: int) -> None:
        self.number = number
        self.nexts: list[AutomatonNode] = []
        self.takes: re.Pattern[str] | None = None
        self.asserts: re.Pattern[str] | None = None
        self._known: dict[str, bool] = {}

    def accepts(self, character: str) -> bool:
        """Whether the state consumes this character."""
        known = self._known.get(character)
        if known is None:
            assert self.takes is not None
            known = self._known[character] = self.takes.match(character) is not None
        return known


class Automaton:
    """A compiled expression.

    A ``rough`` automaton treats high repetition counts as unbounded and back-references as empty. It is for
    analyzing the expression, not for matching.
    """

    def __init__(self, pattern: re.Pattern[str], *, rough: bool = False) -> None:
        self._rough = rough
        self._tree = PARSER.parse(pattern.pattern, pattern.flags)
        self.nodes: list[AutomatonNode] = []
        self.end = self._node()
        self.start = self._sequence(self._tree, pattern.flags, self.end)

    def found_in(self, text: str) -> bool:
        """Whether the expression matches anywhere in ``text``. Takes O(len(text) * number of states) time."""
        active: list[AutomatonNode] = []
        for at in range(len(text) + 1):
            active.append(self.start)
            characters = self._reached(active, text, at)
            if characters is None:
                return True
            if at < len(text):
                active = [node.nexts[0] for node in characters if node.accepts(text[at])]
        return False

    def _reached(self, active: list[AutomatonNode], text: str, at: int) -> list[AutomatonNode] | None:
        """Return the states that consume a character and are reachable without one; None if the final state is."""
        seen: set[int] = set()
        found: list[AutomatonNode] = []
        while active:
            node = active.pop()
            if node.number in seen:
                continue
            seen.add(node.number)
            if node is self.end:
                return None
            if node.takes is not None:
                found.append(node)
            elif node.asserts is None or node.asserts.match(text, at) is not None:
                active += node.nexts
        return found

    # The automaton is built from the end: each part is given the state that follows it.

    def _node(self, *nexts: AutomatonNode) -> AutomatonNode:
        if len(self.nodes) >= MOST_NODES:
            raise Unsupported("it is too large once its repetitions are expanded")
        node = AutomatonNode(len(self.nodes))
        node.nexts.extend(nexts)
        self.nodes.append(node)
        return node

    def _sequence(self, parts: Sequence[Any], flags: int, after: AutomatonNode) -> AutomatonNode:
        for part in reversed(list(parts)):
            after = self._part(part, flags, after)
        return after

    def _part(self, part: Any, flags: int, after: AutomatonNode) -> AutomatonNode:
        code, operand = part
        if code in _CHARACTERS:
            node = self._node(after)
            node.takes = self._compiled(part, flags)
            return node
        if code in _LOOKS and self._rough:
            return self._node(self._sequence(operand[1], flags, self._node()), after)
        if code in _ASSERTIONS:
            if code in _LOOKS and any(each in _REPEATS for each, _ in parts_of(operand[1])):
                raise Unsupported("it has a lookaround assertion that contains a repetition")
            node = self._node(after)
            node.asserts = self._compiled(part, flags)
            return node
        if code is CODES.SUBPATTERN:
            _, more, fewer, inner = operand
            return self._sequence(inner, (flags | more) & ~fewer, after)
        if code is CODES.BRANCH:
            return self._node(*(self._sequence(each, flags, after) for each in operand[1]))
        if code in _REPEATS:
            least, most, inner = operand
            return self._repeated(least, most, lambda then: self._sequence(inner, flags, then), after)
        if self._rough and code in _BY_TEXT:
            return after
        raise Unsupported("it has a back-reference, a conditional, an atomic group or a possessive quantifier")

    def _repeated(
        self, least: int, most: Any, body: Callable[[AutomatonNode], AutomatonNode], after: AutomatonNode
    ) -> AutomatonNode:
        if most is CODES.MAXREPEAT or (self._rough and most >= _MANY):
            loop = self._node()
            loop.nexts += [body(loop), after]
            after, least = loop, min(least, 1) if self._rough else least
        else:
            for _ in range(most - least):
                after = self._node(body(after), after)
        for _ in range(least):
            after = body(after)
        return after

    def _compiled(self, part: Any, flags: int) -> re.Pattern[str]:
        compiled: re.Pattern[str] = _compiler.compile(PARSER.SubPattern(self._tree.state, [part]), flags)
        return compiled


def parts_of(parts: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return all parts of a parsed expression, including nested ones."""
    found: list[tuple[Any, Any]] = []
    for code, operand in parts:
        found.append((code, operand))
        inner: list[Any] = []
        if code in _REPEATS or code is CODES.POSSESSIVE_REPEAT:
            inner = [operand[2]]
        elif code is CODES.SUBPATTERN:
            inner = [operand[3]]
        elif code is CODES.BRANCH:
            inner = operand[1]
        elif code is CODES.ATOMIC_GROUP:
            inner = [operand]
        elif code in _LOOKS:
            inner = [operand[1]]
        elif code is CODES.GROUPREF_EXISTS:
            inner = [each for each in operand[1:] if each is not None]
        for each in inner:
            found += parts_of(each)
    return found
