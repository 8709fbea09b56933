"""A model of power loss: from the trace of a recording disk to the states that the loss could leave.

A disk has sectors of 512 or 4096 bytes. A sector that was written but not synced may hold any content that was written
to it since its last sync, or the synced content. A synced sector stays as it is. A write may be torn between sectors,
and the tail of its last sector may be zeros. Names that were created, changed or removed since the last sync of the
directory may exist or not. The base (LMDB) changes atomically from one commit to the next, or is found in the middle of
a commit; see pages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from tests.crash.pages import unfinished
from tests.support.disks import (
    BaseChanged,
    Created,
    DirectorySynced,
    Event,
    NameChange,
    Noted,
    Removed,
    Renamed,
    Synced,
    Wrote,
)

SECTOR = 512
_SUBSETS = 6
"""Up to so many unsynced writes, every subset of them is tried."""


@dataclass(slots=True)
class _Sectors:
    """One file: what is on disk, what the system holds, and for each unsynced sector the contents since it was synced,
    each with the number of the write that made it."""

    durable: bytearray
    current: bytearray
    sector: int = SECTOR
    unsynced: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    def write(self, number: int, offset: int, data: bytes) -> None:
        self.current[offset : offset + len(data)] = data
        for sector in self._touched(offset, len(data)):
            self.unsynced.setdefault(sector, []).append((number, bytes(self.current[self._span(sector)])))

    def sync(self, offset: int, length: int | None) -> None:
        for sector in self._touched(offset, len(self.current) if length is None else length):
            self.durable[self._span(sector)] = self.current[self._span(sector)]
            self.unsynced.pop(sector, None)

    def crashed(self, kept: Collection[int], torn: int, lost: Collection[int], zeroed: Collection[int]) -> bytes:
        """The content if of the unsynced writes those in ``kept`` arrived; but of the write ``torn`` the sectors
        ``lost`` did not, and the sectors ``zeroed`` arrived as zeros."""
        content = bytearray(self.durable)
        for sector, versions in self.unsynced.items():
            arrived = [(number, data) for number, data in versions if number in kept]
            if not arrived:
                continue
            number, data = arrived[-1]
            if number == torn and sector in zeroed:
                data = bytes(len(data))
            elif number == torn and sector in lost:
                data = arrived[-2][1] if len(arrived) > 1 else bytes(self.durable[self._span(sector)])
            content[self._span(sector)] = data
        return bytes(content)

    def _span(self, sector: int) -> slice:
        return slice(sector * self.sector, (sector + 1) * self.sector)

    def _touched(self, offset: int, length: int) -> range:
        return range(offset // self.sector, (offset + length + self.sector - 1) // self.sector) if length else range(0)


@dataclass(frozen=True)
class Crash:
    """The files of a store after a power loss. ``notes`` were made before it."""

    log: dict[str, bytes]
    base: bytes
    notes: tuple[object, ...]
    how: str

    def materialise(self, store: Path, manifest: bytes) -> None:
        """Make these files in the directory ``store``, which must not exist."""
        (store / "log").mkdir(parents=True)
        (store / "base").mkdir()
        (store / "store.json").write_bytes(manifest)
        (store / "base" / "data.mdb").write_bytes(self.base)
        for name, content in self.log.items():
            (store / "log" / name).write_bytes(content)


class _Medium:
    """The disk as a trace left it."""

    def __init__(self, sector: int) -> None:
        self._sector = sector
        self.files: dict[int, _Sectors] = {}
        self.names: dict[str, int] = {}
        self.unsynced_names: list[NameChange] = []
        self.base = b""
        self.notes: list[object] = []

    def play(self, number: int, event: Event) -> None:
        match event:
            case Created(file, _, size):
                self.files[file] = _Sectors(bytearray(size), bytearray(size), self._sector)
                self.unsynced_names.append(event)
            case Renamed() | Removed():
                self.unsynced_names.append(event)
            case Wrote(file, offset, data):
                self.files[file].write(number, offset, data)
            case Synced(file, offset, length):
                self.files[file].sync(offset, length)
            case DirectorySynced():
                self.names = self._named(self.unsynced_names)
                self.unsynced_names = []
            case BaseChanged(content):
                self.base = content
            case Noted(what):
                self.notes.append(what)

    def _named(self, changes: list[NameChange]) -> dict[str, int]:
        """The names if only these of the unsynced changes arrived."""
        names = dict(self.names)
        for change in changes:
            match change:
                case Created(file, name, _):
                    names[name] = file
                case Renamed(source, target) if source in names:
                    names[target] = names.pop(source)
                case Removed(name):
                    names.pop(name, None)
                case _:  # a rename of a name that never arrived
                    pass
        return names

    def crashes(self) -> Iterator[Crash]:
        for how, contents in self._contents():
            yield self._crash(self._named(self.unsynced_names), contents, f"{how}, all names")
        everything = {file: bytes(sectors.current) for file, sectors in self.files.items()}
        synced_only = {file: bytes(sectors.durable) for file, sectors in self.files.items()}
        for how, names in self._namings():
            yield self._crash(names, everything, f"{how}, all writes")
            yield self._crash(names, synced_only, f"{how}, synced writes only")

    def crashes_in_the_base(self, after: bytes) -> Iterator[Crash]:
        """In the middle of the LMDB commit that brings the base to ``after``."""
        names = self._named(self.unsynced_names)
        everything = {file: bytes(sectors.current) for file, sectors in self.files.items()}
        synced_only = {file: bytes(sectors.durable) for file, sectors in self.files.items()}
        for how, content in unfinished(self.base, after) if self.base else ():
            yield self._crash(names, everything, f"{how}, all writes", content)
            yield self._crash(names, synced_only, f"{how}, synced writes only", content)

    def _crash(self, names: dict[str, int], contents: dict[int, bytes], how: str, base: bytes | None = None) -> Crash:
        log = {name: contents[file] for name, file in names.items()}
        return Crash(log, self.base if base is None else base, tuple(self.notes), how)

    def _contents(self) -> Iterator[tuple[str, dict[int, bytes]]]:
        unsynced = [(sector, versions) for each in self.files.values() for sector, versions in each.unsynced.items()]
        writes = sorted({number for _, versions in unsynced for number, _ in versions})
        last = writes[-1] if writes else -1

        def arrived(
            kept: Collection[int], lost: Collection[int] = (), zeroed: Collection[int] = ()
        ) -> dict[int, bytes]:
            return {file: each.crashed(kept, last, lost, zeroed) for file, each in self.files.items()}

        for count in range(len(writes) + 1):
            yield f"{count} of {len(writes)} unsynced writes", arrived(writes[:count])
        for number in writes:
            yield f"all unsynced writes but {number}", arrived(set(writes) - {number})
            yield f"of the unsynced writes only {number}", arrived({number})
        for size in range(2, len(writes) - 1 if len(writes) <= _SUBSETS else 0):
            for subset in combinations(writes, size):
                yield f"of the unsynced writes only {subset}", arrived(subset)
        sectors = sorted(sector for sector, versions in unsynced if versions[-1][0] == last)
        for cut in range(1, len(sectors)):
            head, tail = sectors[:cut], sectors[cut:]
            yield f"the last write torn after sector {cut}", arrived(writes, lost=tail)
            yield f"the last write torn before sector {cut}", arrived(writes, lost=head)
            yield f"the last write zeroed after sector {cut}", arrived(writes, zeroed=tail)

    def _namings(self) -> Iterator[tuple[str, dict[str, int]]]:
        changes = self.unsynced_names
        for count in range(len(changes) + 1):
            yield f"{count} of {len(changes)} unsynced names", self._named(changes[:count])
        for index in range(len(changes)):
            yield f"all unsynced names but {index}", self._named(changes[:index] + changes[index + 1 :])


def crashes(trace: Sequence[Event], sector: int = SECTOR) -> Iterator[Crash]:
    """Every modelled state after a power loss between two events of ``trace``, each only once."""
    return _once(crash for medium, _ in _played(trace, sector) for crash in medium.crashes())


def crashes_in_the_base(trace: Sequence[Event]) -> Iterator[Crash]:
    """Every modelled state after a power loss in the middle of an LMDB commit of ``trace``, each only once."""
    return _once(
        crash
        for medium, following in _played(trace, SECTOR)
        if isinstance(following, BaseChanged) and not following.exchanged
        for crash in medium.crashes_in_the_base(following.content)
    )


def _played(trace: Sequence[Event], sector: int) -> Iterator[tuple[_Medium, Event | None]]:
    """The disk after each event, and the event that follows."""
    medium = _Medium(sector)
    for number, (event, following) in enumerate(zip(trace, [*trace[1:], None], strict=True)):
        medium.play(number, event)
        yield medium, following


def _once(found: Iterable[Crash]) -> Iterator[Crash]:
    seen: set[int] = set()
    for crash in found:
        key = hash((tuple(sorted(crash.log.items())), crash.base, crash.notes))
        if key not in seen:
            seen.add(key)
            yield crash
