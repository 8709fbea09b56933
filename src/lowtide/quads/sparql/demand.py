"""What an operator asks of the part below it, besides its solutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lowtide.quads.sparql.scopes import Names
from lowtide.quads.sparql.tables import Solutions, distinct


@dataclass(frozen=True, slots=True)
class Demand:
    """What the caller of a part knows.

    ``hint``: solutions that will be joined with the part's. The part may leave out solutions that agree with none of
    them, and need not. ``block``: not all solutions may be needed, so give them in blocks of about this size; None:
    give them at once. ``filters``: what must hold; the part must apply them all.
    """

    hint: Solutions | None = None
    block: int | None = None
    filters: tuple[Any, ...] = ()

    def hinted(self, names: Names) -> Demand:
        """The same, with what the hint says about these variables; they are bound in every solution of the part, so
        that a row which disagrees with the hint can be left out."""
        if self.hint is None:
            return self
        useful = [name for name in self.hint.columns if name in names and name not in self.hint.partial]
        return replace(self, hint=distinct(self.hint.only(useful)) if useful else None)

    def with_hint(self, hint: Solutions | None) -> Demand:
        return replace(self, hint=hint)

    def with_filters(self, *filters: Any) -> Demand:
        return replace(self, filters=filters) if filters or self.filters else self


PLAIN = Demand()
