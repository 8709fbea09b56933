"""Statements of several steps that take effect together or not at all.

Each step sees the writes of the steps before it. Nothing reaches the transaction until the last step has succeeded. At
NONE, where every write is a commit, all steps are one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from lowtide.engine.statements.runners import PrefixOf
from lowtide.engine.statements.statement import WriteView
from lowtide.engine.types import Range, Writes

_Result = TypeVar("_Result")


class StatementBuffer:
    """What the steps of a statement read from and write to. Scans do not show buffered writes: no step scans what an
    earlier step wrote."""

    __slots__ = ("_merging", "_ranges", "_relied_on", "_writes", "_writing")

    def __init__(self, writing: WriteView) -> None:
        self._writing = writing
        self._writes: Writes = {}
        self._relied_on: dict[bytes, None] = {}
        self._ranges: list[Range] = []
        self._merging: frozenset[bytes] = frozenset()

    @property
    def ts(self) -> int:
        return self._writing.ts

    def read(self, full_key: bytes) -> bytes | None:
        return self._writes[full_key] if full_key in self._writes else self._writing.read(full_key)

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        return [self.read(full_key) for full_key in full_keys]

    def peek(self, full_keys: list[bytes]) -> list[bytes | None]:
        found = self._writing.peek(full_keys)
        return [self._writes.get(key, value) for key, value in zip(full_keys, found, strict=True)]

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        return self._writing.chunks(wanted)

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        return self._writing.keys_under(prefixes, most)

    def about(self, wanted: Range) -> int:
        return self._writing.about(wanted)

    @property
    def tracked(self) -> bool:
        return self._writing.tracked

    @property
    def pending(self) -> Writes:
        return {**self._writing.pending, **self._writes}

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        return self._writing.scan(wanted)

    def time(self) -> float:
        return self._writing.time()

    def apply(
        self,
        writes: Writes,
        relied_on: Iterable[bytes],
        before: Writes | None = None,
        merging: frozenset[bytes] = frozenset(),
    ) -> None:
        self._writes.update(writes)
        self._merging |= merging
        self._relied_on.update(dict.fromkeys(relied_on))

    def note_replaced(self, full_keys: set[bytes]) -> None:
        self._writing.note_replaced(full_keys)

    def rely_on(self, wanted: Range) -> None:
        self._ranges.append(wanted)

    def finish(self) -> None:
        """Pass all buffered writes to the transaction."""
        for each in self._ranges:
            self._writing.rely_on(each)
        if self._writes:
            self._writing.apply(self._writes, self._relied_on, merging=self._merging)


def atomic(work: Callable[[WriteView, PrefixOf], _Result]) -> Callable[[WriteView, PrefixOf], _Result]:
    """Wrap ``work`` as one statement: all of its writes take effect, or none."""

    def run(writing: WriteView, prefix_of: PrefixOf) -> _Result:
        gathering = StatementBuffer(writing)
        result = work(gathering, prefix_of)
        gathering.finish()
        return result

    return run
