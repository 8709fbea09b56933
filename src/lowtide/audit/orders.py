"""The order of a key's versions, and the position of a read in it.

There are two kinds of keys. A *register* is overwritten. Its order is that of the commits that wrote it. A read names
the version that it saw, or a value that only one write wrote. A *list* is appended to. Its order is that of the longest
read, as in Elle. The last element that a read returned gives its position.

A write that *merged* put a value equal to the current one, which its transaction had not seen. It overwrote nothing, so
no write comes before it, and a read of the equal value also saw its value. But the next write overwrites both, and a
read of the state before both has missed both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from lowtide.audit.history import Element, Value
from lowtide.errors import UsageError

INITIAL, UNKNOWN = -1, -2
"""Positions: before the first write, and unknown, because the position of the write is."""

Counts = Callable[[int], bool]
"""Returns whether a transaction, given by number, was committed."""
Problem = tuple[str, str, tuple[int, ...]]
"""The name of an anomaly, its description, and the transactions involved other than the reader."""


class Write:
    """One write of one transaction.

    ``final``: it is the transaction's last write of the key. ``earlier``: the transaction's previous write of the key.
    """

    __slots__ = ("appended", "earlier", "final", "key", "merged", "place", "position", "tx", "value", "version")

    def __init__(
        self,
        tx: int,
        place: int,
        key: str,
        value: Element | None,
        version: int | None,
        *,
        appended: bool,
        merged: bool = False,
    ):
        self.tx = tx
        self.place = place
        self.key = key
        self.value = value
        self.version = version
        self.appended = appended
        self.merged = merged
        self.final = True
        self.earlier: Write | None = None
        self.position = UNKNOWN


class Read(NamedTuple):
    """What a transaction saw of a key: a position in its order, and the writer. ``phantom``: a scan missed the key."""

    tx: int
    place: int
    key: str
    position: int
    writer: Write | None
    shown: Value
    phantom: bool = False


class Sight(NamedTuple):
    """The position of a read in the order."""

    position: int
    writer: Write | None = None
    problems: tuple[Problem, ...] = ()


NOTHING = Sight(INITIAL)


class Register:
    """The versions of a key that is overwritten."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.writes: list[Write] = []
        self.order: list[Write] = []
        self._by_value: dict[Element, Write] = {}
        self._by_version: dict[int, Write] = {}
        self._ambiguous: set[Element] = set()
        self._deleted = False

    def settle(self, counts: Counts) -> Iterator[Problem]:
        """Sort the writes. Called once, when all are known."""
        for write in self.writes:
            if write.value is None:
                self._deleted = True
            else:
                other = self._by_value.setdefault(write.value, write)
                if other.tx != write.tx:
                    self._ambiguous.add(write.value)
                self._by_value[write.value] = write
            if write.version is not None:
                other = self._by_version.setdefault(write.version, write)
                if other.tx != write.tx:
                    words = f"two transactions claim to have written version {write.version} of {self.key}"
                    yield "duplicate", words, (other.tx, write.tx)
        placed = [(write.version, write) for write in self.writes if write.version is not None and counts(write.tx)]
        placed.sort(key=lambda pair: pair[0])
        for position, (_, write) in enumerate(placed):
            write.position = position
            self.order.append(write)

    def seen(self, value: Value, version: int | None, given: bool) -> Sight | None:
        """Return the position of a read that saw a value, if one is ``given``, or a version.

        None if the position is ambiguous, as after several deletes.
        """
        if version is not None:
            return self._seen_version(value, version, given)
        if value is None or value == []:
            return None if self._deleted else NOTHING
        write = None if isinstance(value, list) else self._by_value.get(value)
        if write is None:
            return Sight(UNKNOWN, None, (("garbage", f"no transaction wrote {value!r} to {self.key}", ()),))
        if write.value in self._ambiguous:
            raise UsageError(
                f"several transactions wrote {value!r} to {self.key!r}, so a read of it does not say what it saw: "
                "write values that are unique for their key, or have reads name versions"
            )
        return Sight(write.position, write)

    def _seen_version(self, value: Value, version: int, given: bool) -> Sight:
        write = self._by_version.get(version)
        if write is None:
            if version == 0 or not self.order or version < (self.order[0].version or 0):
                return NOTHING
            return Sight(UNKNOWN, None, (("garbage", f"no transaction wrote version {version} of {self.key}", ()),))
        if given and value != write.value:
            words = f"version {version} of {self.key} was written as {write.value!r} and read as {value!r}"
            return Sight(write.position, write, (("garbage", words, (write.tx,)),))
        return Sight(write.position, write)


class AppendList:
    """The versions of a key that is appended to: the prefixes of its longest read."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.writes: list[Write] = []
        self.order: list[Write] = []
        self.longest: list[Element] = []
        self.by_element: dict[Element, Write] = {}
        self._positions: list[int] = []
        self._sound = 0
        """Number of leading elements of the longest read that are valid."""
        self._counts: Counts = bool
        self.unread: list[Write] = []
        """The first append of each committed transaction whose appends were never read. Unless some were lost, they
        come after everything that was read."""

    def settle(self, counts: Counts) -> Iterator[Problem]:
        """Sort the writes. Called once, when the longest read is known."""
        self._counts = counts
        sound = True
        for length, element in enumerate(self.longest):
            write = self.by_element.get(element)
            if write is not None and counts(write.tx) and write.position == UNKNOWN:
                write.position = len(self.order)
                self.order.append(write)
            else:
                sound = False
            if sound:
                self._sound = length + 1
            self._positions.append(len(self.order) - 1)
        seen = {write.tx for write in self.order}
        for write in self.writes:
            if write.tx not in seen and counts(write.tx):
                seen.add(write.tx)
                self.unread.append(write)
        return iter(())

    def note(self, write: Write) -> None:
        """Register an append, before the order is settled."""
        if write.value is None or self.by_element.setdefault(write.value, write) is not write:
            raise UsageError(
                f"{write.value!r} is appended to {self.key!r} twice: elements must be unique for their key"
            )

    def seen(self, value: Value, version: int | None, given: bool) -> Sight | None:
        """Return the position of a read that saw these elements."""
        if not given:
            raise UsageError(f"{self.key!r} is appended to, so a read of it says which elements it saw")
        if value is None or value == []:
            return NOTHING
        if not isinstance(value, list):
            return Sight(UNKNOWN, None, (("garbage", f"{self.key} is a list, and was read as {value!r}", ()),))
        problems: list[Problem] = []
        beginning = self.longest[: len(value)] == value
        if not beginning:
            words = f"{self.key} was read as {shortened(value)} and as {shortened(self.longest)}"
            problems.append(("incompatible-order", f"{words}: neither is a prefix of the other", ()))
        if not beginning or len(value) > self._sound:
            problems += self._wrong_elements(value)
        writer = self.by_element.get(value[-1])
        if writer is None or not beginning:
            return Sight(UNKNOWN, writer, tuple(problems))
        return Sight(self._positions[len(value) - 1], writer, tuple(problems))

    def _wrong_elements(self, elements: list[Element]) -> Iterator[Problem]:
        """Find elements that no transaction appended, that are repeated, or, except for the last, that were aborted."""
        met: set[Element] = set()
        for element in elements:
            write = self.by_element.get(element)
            if write is None:
                yield "garbage", f"no transaction appended {element!r} to {self.key}", ()
            elif element in met:
                yield "duplicate", f"{element!r} is twice in {self.key}", (write.tx,)
            elif not self._counts(write.tx) and element != elements[-1]:
                yield "G1a", f"{element!r} in {self.key} is of a transaction that was rolled back", (write.tx,)
            met.add(element)


Order = Register | AppendList


def equal_writes(order: Order, position: int) -> tuple[int, int]:
    """The positions between which the value at a position was the newest: from that of its first write to that of the
    next write that did not merge, or the number of writes if there is none. Writes that merged with what was there
    before the history began are equal to that."""
    writes = order.order
    begin, end = position, position + 1
    while begin > 0 and writes[begin].merged:
        begin -= 1
    while end < len(writes) and writes[end].merged:
        end += 1
    return begin, end


def shortened(value: Value) -> str:
    """Format a value for a witness. Of a long list, only the end is shown."""
    if isinstance(value, list) and len(value) > 8:
        return "[..., " + ", ".join(map(repr, value[-6:])) + "]"
    return repr(value)
