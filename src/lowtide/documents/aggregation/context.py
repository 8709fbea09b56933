"""Shared by the compilers of expressions, accumulators and stages: context, tracked reads and errors.

An expression is compiled once, to a function of a document and the variables in scope. An expression
without a value, such as the path of a missing field, evaluates to ``MISSING``. ``MISSING`` is never
stored in a document.
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
    """An operator got a value it does not support. Converted to an OperationFailure that says where."""


@dataclass
class Reads:
    """The top-level input fields that a stage reads. ``whole`` means that it may read any field."""

    fields: set[str] = field(default_factory=set)
    whole: bool = False

    def path(self, path: str) -> None:
        self.fields.add(path.partition(".")[0])

    def join(self, other: Reads) -> None:
        self.fields |= other.fields
        self.whole = self.whole or other.whole


@dataclass(frozen=True)
class Context:
    """The compiler's position in the pipeline.

    Operators call ``compile`` on their operands. ``reads`` collects the fields that the expressions of one
    stage read.
    """

    where: str
    compiler: Callable[[Any, Context], Evaluate]
    variables: frozenset[str] = frozenset()
    reads: Reads = field(default_factory=Reads)

    def at(self, part: str) -> Context:
        return replace(self, where=f"{self.where}: {part}" if self.where else part)

    def binding(self, *names: str) -> Context:
        """Return a context that also has these variables in scope."""
        for name in names:
            if not (name[:1].islower() or name[:1] > "\x7f") or not name.replace("_", "a").isalnum():
                self.fail(
                    f"{name!r} is not a valid variable name: use letters and digits, and begin with a lowercase letter"
                )
        return replace(self, variables=self.variables | set(names))

    def compile(self, expression: Any) -> Evaluate:
        return self.compiler(expression, self)

    def constant(self, expression: Any) -> Any:
        """Return the value of a constant expression."""
        alone = replace(self, variables=frozenset(), reads=Reads())
        evaluate = alone.compile(expression)
        try:
            value = MISSING if alone.reads.fields or alone.reads.whole else evaluate({}, {})
        except KeyError:  # $$NOW
            value = MISSING
        if value is MISSING:
            self.fail(f"expected a constant, got {described(expression)}")
        return value

    def fail(self, reason: str) -> NoReturn:
        raise OperationFailure(f"{self.where}: {reason}")

    def sort(self, specification: Any) -> Sort:
        """Compile a sort specification and record the fields it reads."""
        if not isinstance(specification, dict) or not specification:
            self.fail(f"a sort must be an object of field paths, each with 1 or -1, got {described(specification)}")
        try:
            order = compile_sort(specification)
        except OperationFailure as error:
            raise OperationFailure(f"{self.where}: {error}") from error
        for path, _ in order.keys:
            self.reads.path(path)
        return order

    def operands(self, operand: Any, least: int = 1, most: int | None = 1) -> list[Evaluate]:
        """Compile the operands of an operator: an array of operands, or a single one."""
        given = operand if isinstance(operand, list) else [operand]
        if len(given) < least or (most is not None and len(given) > most):
            wanted = str(least) if most == least else f"{least} to {most}" if most is not None else f"at least {least}"
            self.fail(f"expected {wanted} operand{'s' if wanted != '1' else ''}, got {len(given)}")
        return [self.compile(each) for each in given]

    def named(self, operand: Any, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
        """Check the named operands of an operator and return them."""
        if not isinstance(operand, dict):
            self.fail(f"expected an object with {', '.join((*required, *optional))}, got {described(operand)}")
        for name in operand:
            if name not in required and name not in optional:
                self.fail(f"unknown operand {name!r}; use {', '.join((*required, *optional))}")
        for name in required:
            if name not in operand:
                self.fail(f"{name!r} is required")
        return operand


Build = Callable[[Any, Context], Evaluate]
"""Compiles an operator from its operand. The context already names the operator."""


def described(value: object) -> str:
    """Describe a value for an error message: its type, and the value, truncated if it is long."""
    if value is MISSING:
        return "nothing"
    text = shown(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


FAILURES: Final = (BadOperand, DecimalException, OverflowError)
"""Exceptions that a function on values may raise. ``reason`` describes them."""


def reason(error: Exception) -> str:
    return str(error) if isinstance(error, BadOperand) else "the result is out of range"


def unary(function: Callable[[Any], Any], *, strict: bool = True) -> Build:
    """Build an operator with one operand. If ``strict``, null or missing gives null without calling ``function``."""

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
    """Build an operator with several operands. If ``strict``, any null or missing operand gives null."""

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
    """Build an operator with named operands, which are passed to ``function`` in this order.

    An optional operand that is not given is MISSING. If an operand in ``strict`` is null or missing, the
    result is null.
    """
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
    """Evaluate to MISSING: the expression without a value."""
    return MISSING


def truth(value: object) -> bool:
    """Whether a value counts as true: all do except false, null, zero and MISSING."""
    if value is None or value is MISSING or value is False:
        return False
    return value != 0 if RANKS[type(value)] == 2 else True


def place_of(value: object) -> Place:
    """Return the position of a value in comparison order. MISSING sorts before null."""
    return (0, 0) if value is MISSING else place(value)


_HASHED: Final = frozenset((str, int, float, Decimal, type(None)))
"""Types whose Python equality and hash agree with the comparison order, also across these types."""


def hashable(value: object) -> Any:
    """Return a hashable key that is equal only for equal values.

    1 and 1.0 have the same key, 1 and true do not. Cheap for strings and numbers.
    """
    return value if type(value) in _HASHED else place_of(value)


def whole_number(value: object) -> int | None:
    """Return the integer equal to ``value``; None if it is not a number or has a fraction."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or RANKS.get(type(value)) != 2:
        return None
    try:
        number = int(value)  # type: ignore[call-overload]
    except (OverflowError, ValueError):
        return None
    return number if number == value else None
