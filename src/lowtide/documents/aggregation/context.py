"""What the compilers of expressions, accumulators and stages share: where they are, what they may read, how they fail.

An expression is compiled once to a function of a document and of the variables in scope. What has no value at all, such
as the path of a field that is not there, is ``MISSING``; it is never part of a document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, DecimalException
from typing import Any, Final, NoReturn

from lowtide.documents.sorting import Sort, compile_sort
from lowtide.errors import OperationFailure, shown
from lowtide.values.paths import MISSING
from lowtide.values.values import RANKS, Document, Place, place

Variables = Mapping[str, Any]
Evaluate = Callable[[Document, Variables], Any]


class BadOperand(Exception):
    """A value that an operator cannot take. It becomes an OperationFailure, which says where."""


@dataclass
class Reads:
    """The top-level fields of its input that a stage reads; ``whole`` if it may be any of them."""

    fields: set[str] = field(default_factory=set)
    whole: bool = False

    def path(self, path: str) -> None:
        self.fields.add(path.partition(".")[0])

    def join(self, other: Reads) -> None:
        self.fields |= other.fields
        self.whole = self.whole or other.whole


@dataclass(frozen=True)
class Context:
    """Where in the pipeline a compiler is. ``compile`` is the compiler of expressions, which operators call for their
    operands, ``reads`` collects the fields that the expressions of one stage read."""

    where: str
    compiler: Callable[[Any, Context], Evaluate]
    variables: frozenset[str] = frozenset()
    reads: Reads = field(default_factory=Reads)

    def at(self, part: str) -> Context:
        return replace(self, where=f"{self.where}: {part}" if self.where else part)

    def binding(self, *names: str) -> Context:
        """With these variables in scope as well."""
        for name in names:
            if not (name[:1].islower() or name[:1] > "\x7f") or not name.replace("_", "a").isalnum():
                self.fail(
                    f"{name!r} cannot name a variable: begin with a lowercase letter, go on with letters and digits"
                )
        return replace(self, variables=self.variables | set(names))

    def compile(self, expression: Any) -> Evaluate:
        return self.compiler(expression, self)

    def constant(self, expression: Any) -> Any:
        """The value of an expression that no document and no variable changes."""
        alone = replace(self, variables=frozenset(), reads=Reads())
        evaluate = alone.compile(expression)
        try:
            value = MISSING if alone.reads.fields or alone.reads.whole else evaluate({}, {})
        except KeyError:  # $$NOW
            value = MISSING
        if value is MISSING:
            self.fail(f"it is a constant, not {described(expression)}")
        return value

    def fail(self, reason: str) -> NoReturn:
        raise OperationFailure(f"{self.where}: {reason}")

    def sort(self, specification: Any) -> Sort:
        """The order that an object of paths says, each with 1 or -1; what it looks at is read."""
        if not isinstance(specification, dict) or not specification:
            self.fail(f"an order is an object of paths, each with 1 or -1, not {described(specification)}")
        try:
            order = compile_sort(specification)
        except OperationFailure as error:
            raise OperationFailure(f"{self.where}: {error}") from error
        for path, _ in order.keys:
            self.reads.path(path)
        return order

    def operands(self, operand: Any, least: int = 1, most: int | None = 1) -> list[Evaluate]:
        """The compiled operands of an operator: those in an array, or the one that stands alone."""
        given = operand if isinstance(operand, list) else [operand]
        if len(given) < least or (most is not None and len(given) > most):
            wanted = str(least) if most == least else f"{least} to {most}" if most is not None else f"at least {least}"
            self.fail(f"it takes {wanted} operand{'s' if wanted != '1' else ''}, not {len(given)}")
        return [self.compile(each) for each in given]

    def named(self, operand: Any, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
        """The operands of an operator that names them."""
        if not isinstance(operand, dict):
            self.fail(f"it takes an object with {', '.join((*required, *optional))}, not {described(operand)}")
        for name in operand:
            if name not in required and name not in optional:
                self.fail(f"{name!r} is unknown; there are {', '.join((*required, *optional))}")
        for name in required:
            if name not in operand:
                self.fail(f"{name!r} is required")
        return operand


Build = Callable[[Any, Context], Evaluate]
"""From an operator's operand to a function; the context already names the operator."""


def described(value: object) -> str:
    """A value in a message: its type, and itself if it is short."""
    if value is MISSING:
        return "nothing"
    text = shown(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


FAILURES: Final = (BadOperand, DecimalException, OverflowError)
"""What a function on values may raise; ``reason`` says it in words."""


def reason(error: Exception) -> str:
    return str(error) if isinstance(error, BadOperand) else "the result is no number that can be held"


def unary(function: Callable[[Any], Any], *, strict: bool = True) -> Build:
    """An operator of one operand. If it is strict, null and missing give null without asking ``function``."""

    def build(operand: Any, context: Context) -> Evaluate:
        (inner,) = context.operands(operand)

        def evaluate(document: Document, variables: Variables) -> Any:
            value = inner(document, variables)
            if strict and (value is None or value is MISSING):
                return None
            try:
                return function(value)
            except FAILURES as error:
                raise OperationFailure(f"{context.where}: {reason(error)}") from error

        return evaluate

    return build


def several(function: Callable[..., Any], least: int, most: int | None = None, *, strict: bool = True) -> Build:
    """An operator of several operands. If it is strict, one that is null or missing gives null."""

    def build(operand: Any, context: Context) -> Evaluate:
        inner = context.operands(operand, least, most)

        def evaluate(document: Document, variables: Variables) -> Any:
            values = []
            for each in inner:
                value = each(document, variables)
                if strict and (value is None or value is MISSING):
                    return None
                values.append(value)
            try:
                return function(*values)
            except FAILURES as error:
                raise OperationFailure(f"{context.where}: {reason(error)}") from error

        return evaluate

    return build


def by_name(
    function: Callable[..., Any], required: Sequence[str], optional: Sequence[str] = (), *, strict: Sequence[str] = ()
) -> Build:
    """An operator with named operands, which ``function`` takes by these names in this order; an optional one that is
    not given is MISSING. Null or missing in one of ``strict`` gives null."""
    names = (*required, *optional)
    decisive = [names.index(name) for name in strict]

    def build(operand: Any, context: Context) -> Evaluate:
        given = context.named(operand, required, optional)
        inner = [context.compile(given[name]) if name in given else nothing for name in names]

        def evaluate(document: Document, variables: Variables) -> Any:
            values = [each(document, variables) for each in inner]
            if any(values[index] is None or values[index] is MISSING for index in decisive):
                return None
            try:
                return function(*values)
            except FAILURES as error:
                raise OperationFailure(f"{context.where}: {reason(error)}") from error

        return evaluate

    return build


def nothing(document: Document, variables: Variables) -> Any:
    """An expression without a value."""
    return MISSING


def truth(value: object) -> bool:
    """Whether a value counts as true: all do but false, null, zero and what is missing."""
    if value is None or value is MISSING or value is False:
        return False
    return value != 0 if RANKS[type(value)] == 2 else True


def place_of(value: object) -> Place:
    """The place of a value in comparison order; what is missing comes before null."""
    return (0, 0) if value is MISSING else place(value)


_HASHED: Final = frozenset((str, int, float, Decimal, type(None)))
"""Types whose own equality and hash are those of the comparison order, among each other too."""


def hashable(value: object) -> Any:
    """A key that is equal for equal values only, cheap for strings and numbers: 1 and 1.0 share one, 1 and true do
    not."""
    return value if type(value) in _HASHED else place_of(value)


def whole_number(value: object) -> int | None:
    """The integer that a number is worth; None if it is none, or not a number."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or RANKS.get(type(value)) != 2:
        return None
    try:
        number = int(value)  # type: ignore[call-overload]
    except (OverflowError, ValueError):
        return None
    return number if number == value else None
