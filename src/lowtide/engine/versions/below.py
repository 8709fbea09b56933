"""What lies below the layers, as those who read see it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol, TypeVar

from lowtide.engine.base.types import TableHandle, Txn

_Result = TypeVar("_Result")


class BaseRows(Protocol):
    """The rows below the layers: the base, or the base as it was at a pin."""

    directory: Path

    @property
    def meta(self) -> TableHandle: ...

    def boundary_in(self, txn: Txn) -> int | None: ...

    def read(self, look: Callable[[Txn], _Result]) -> _Result: ...

    def counted(self, low: bytes, high: bytes | None, ts: int, keys: list[bytes]) -> tuple[int, set[bytes]] | None: ...

    def row(self, full_key: bytes) -> bytes | None: ...

    def first(self, low: bytes, high: bytes, ts: int, reverse: bool) -> tuple[bool, tuple[bytes, bytes] | None]: ...

    def rows_of(self, full_keys: list[bytes]) -> dict[bytes, bytes]: ...

    def present(self, full_keys: list[bytes], ts: int) -> Collection[bytes] | None: ...

    def read_history(self, full_key: bytes, ts: int) -> bytes | None: ...

    def has_history(self, ts: int) -> bool: ...

    def chunk(
        self, low: bytes, high: bytes | None, ts: int, limit: int, reverse: bool, strip: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]: ...

    def values(self, low: bytes, high: bytes | None, ts: int, limit: int) -> tuple[list[bytes], bytes | None]: ...

    def keys_under(self, prefixes: list[bytes], ts: int, *, most: int, strip: int) -> list[list[bytes] | None]: ...
