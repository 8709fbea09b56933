"""A regular expression as an automaton, which takes time in proportion to the text, whatever the expression.

Python's ``re`` backtracks, and holds the GIL meanwhile: ``^(a+)+$`` takes exponential time on a text that does not
match, and blocks all threads. The automaton follows all alternatives at once. It tells only whether there is a match.
Single characters and assertions are matched by ``re`` itself, so that flags and categories mean the same.
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
"""So many repetitions, or more, count as any number where only the kind of an expression is asked for."""

_CHARACTERS: Final = frozenset((CODES.LITERAL, CODES.NOT_LITERAL, CODES.ANY, CODES.IN))
_ASSERTIONS: Final = frozenset((CODES.AT, CODES.ASSERT, CODES.ASSERT_NOT, CODES.FAILURE))
_LOOKS: Final = frozenset((CODES.ASSERT, CODES.ASSERT_NOT))
_REPEATS: Final = frozenset((CODES.MAX_REPEAT, CODES.MIN_REPEAT))
_BY_TEXT: Final = frozenset((CODES.GROUPREF, CODES.GROUPREF_EXISTS))


class Unsupported(Exception):
    """The expression is none of those that an automaton can have: it refers back, or is too large."""


class AutomatonNode:
    """A place in an expression. It takes a character, or makes an assertion, or has ways on that take nothing; the last
    one has none of these."""

    __slots__ = ("_known", "asserts", "nexts", "number", "takes")

    def __init__(self, number: int) -> None:
        self.number = number
        self.nexts: list[AutomatonNode] = []
        self.takes: re.Pattern[str] | None = None
        self.asserts: re.Pattern[str] | None = None
        self._known: dict[str, bool] = {}

    def accepts(self, character: str) -> bool:
        """Whether it takes this character."""
        known = self._known.get(character)
        if known is None:
            assert self.takes is not None
            known = self._known[character] = self.takes.match(character) is not None
        return known


class Automaton:
    """An expression, compiled. ``rough`` takes high numbers of repetitions for any number, and references back for
    nothing: for questions about the expression, not for matching."""

    def __init__(self, pattern: re.Pattern[str], *, rough: bool = False) -> None:
        self._rough = rough
        self._tree = PARSER.parse(pattern.pattern, pattern.flags)
        self.nodes: list[AutomatonNode] = []
        self.end = self._node()
        self.start = self._sequence(self._tree, pattern.flags, self.end)

    def found_in(self, text: str) -> bool:
        """Whether the expression matches anywhere in ``text``. O(text) steps, each of at most as many as it has
        nodes."""
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
        """The nodes that take a character, reached from these without one; None if the end is."""
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

    # Building, from the end: each part is given what comes after it.

    def _node(self, *nexts: AutomatonNode) -> AutomatonNode:
        if len(self.nodes) >= MOST_NODES:
            raise Unsupported("it is too large, with its repetitions")
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
                raise Unsupported("it looks ahead or behind for something that is repeated")
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
        raise Unsupported("it refers to what a group has matched, or forbids to go back")

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
    """All parts of a parsed expression, those inside of others, too."""
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
