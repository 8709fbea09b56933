"""The handle of a pin."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from lowtide.engine.base.leases import Leases
from lowtide.engine.base.pin_table import PinRow


class Pin:
    """A named commit, from ``store.pin``. Its state is kept, durably and for every process, until the pin expires.

    >>> with store.pin("report", ttl=60) as pin:
    ...     store.keyspace("fruit").put(b"apple", b"green")
    ...     with store.snapshot(at=pin) as snapshot:
    ...         snapshot.keyspace("fruit").get(b"apple")
    b'red'
    """

    __slots__ = ("_leases", "_released", "_row", "name")

    def __init__(self, leases: Leases, name: str, row: PinRow, released: Callable[[int], None]) -> None:
        self._leases = leases
        self._row = row
        self._released = released
        self.name = name

    @property
    def id(self) -> bytes:
        """A unique id, which distinguishes this pin from a later one of the same name."""
        return self._row.id

    @property
    def ts(self) -> int:
        """The commit whose state is kept."""
        return self._row.ts

    @property
    def keyspaces(self) -> tuple[str, ...] | None:
        """The keyspaces that are kept; None for all."""
        return self._row.keyspaces

    @property
    def owner(self) -> str:
        """The process that took it: id, host, program and line."""
        return self._row.owner

    @property
    def taken(self) -> float:
        """When it was taken, in seconds since the epoch."""
        return self._row.taken

    @property
    def ttl(self) -> float:
        """The seconds until it expires, counted from when it was taken or last renewed."""
        return self._row.ttl

    @property
    def expires(self) -> float:
        """When it expires unless it is renewed, in seconds since the epoch; as of the last renewal by this object."""
        return self._row.expires

    def renew(self, ttl: float | None = None) -> None:
        """Extend its life to ``ttl`` seconds from now, by default the last ``ttl`` that was given.

        Raises SnapshotExpired if it has expired or was removed: what it kept may be gone.

        >>> pin = store.pin("slow report", ttl=60)
        >>> pin.renew(ttl=3600)
        >>> pin.release()
        """
        self._row = self._leases.renew(self.name, self._row.id, ttl)

    def release(self) -> None:
        """Remove the pin, so that versions only it keeps can be collected. Does nothing if it is gone."""
        if self._leases.remove(self.name, self._row.id) is not None:
            self._released(self._row.ts)

    def __enter__(self) -> Pin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<pin {self.name!r} at {self.ts}>"
