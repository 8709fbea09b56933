"""A statement of several steps, which does them all or none.

Each step reads what those before it wrote; nothing reaches the transaction before the last one is through. At NONE,
where every write is a commit, they are one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from lowtide.engine.statements.runners import PrefixOf
from lowtide.engine.statements.statement import WriteView
from lowtide.engine.types import Range, Writes

_Result = TypeVar("_Result")


class StatementBuffer:
    """What the steps of a statement read from and write to. Scans do not show what was gathered: no step scans what an
    earlier one wrote."""

    __slots__ = ("_ranges", "_relied_on", "_writes", "_writing")

    def __init__(self, writing: WriteView) -> None:
        self._writing = writing
        self._writes: Writes = {}
        self._relied_on: dict[bytes, None] = {}
        self._ranges: list[Range] = []

    @property
    def ts(self) -> int:
        return self._writing.ts

    def read(self, full_key: bytes) -> bytes | None:
        return self._writes[full_key] if full_key in self._writes else self._writing.read(full_key)

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        return [self.read(full_key) for full_key in full_keys]

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        return self._writing.scan(wanted)

    def apply(self, writes: Writes, relied_on: Iterable[bytes], before: Writes | None = None) -> None:
        self._writes.update(writes)
        self._relied_on.update(dict.fromkeys(relied_on))

    def note_replaced(self, full_keys: set[bytes]) -> None:
        self._writing.note_replaced(full_keys)

    def rely_on(self, wanted: Range) -> None:
        self._ranges.append(wanted)

    def finish(self) -> None:
        """Give everything to the transaction."""
        for each in self._ranges:
            self._writing.rely_on(each)
        if self._writes:
            self._writing.apply(self._writes, self._relied_on)


def atomic(work: Callable[[WriteView, PrefixOf], _Result]) -> Callable[[WriteView, PrefixOf], _Result]:
    """``work`` as one statement: all of what it writes, or nothing."""

    def run(writing: WriteView, prefix_of: PrefixOf) -> _Result:
        gathering = StatementBuffer(writing)
        result = work(gathering, prefix_of)
        gathering.finish()
        return result

    return run
