"""The stores of a comparison by their names, and what each declares about itself.

An adapter is imported only when its store is used. So a process that measures memory has only the libraries that it
needs, and a store that is not installed is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

Durability = Literal["synced", "unsynced"]
"""Synced: a commit that returned survives a power loss. Unsynced: it survives the process, but not a power loss."""

Opened = TypeVar("Opened")
What = TypeVar("What")


@dataclass(frozen=True)
class Measured(Generic[Opened, What]):
    """A store that is measured: how it is opened, and what has to be known to read its figures."""

    open: Callable[[Path, Durability], Opened]
    """Open the store in this directory, and make it if it is not there."""
    settings: Mapping[Durability, str]
    """By the durabilities that it has."""
    cannot: Mapping[What, str] = field(default_factory=dict)
    """What this store does not do, or not rightly, each with the reason. Such a line stays empty."""
    slow: bool = False
    """Takes part in fewer rounds, because it would make the run long and its ratios need no precision."""
    load_length: int | None = None
    """Records in one transaction of the first load, where the usual number is too many for it."""
    remark: str = ""
    """What a reader should know about how it was set up."""

    def described(self) -> dict[str, Any]:
        """What a report says about the store beside its figures."""
        return {
            "settings": dict(self.settings),
            "cannot": dict(self.cannot),
            "slow": self.slow,
            "remark": self.remark,
        }


AnyMeasured = TypeVar("AnyMeasured", bound=Measured[Any, Any])


@dataclass(frozen=True)
class Place:
    """Where the adapter of a store is found."""

    module: str
    """Of the adapter, in the registry's package; it has the adapter as ADAPTER."""
    imports: str
    """The package that must be there."""
    distribution: str | None
    """Its name on PyPI; None if it comes with Python."""
    colour: str
    """In the plots; a store has the same in all of them."""


class Registry(Generic[AnyMeasured]):
    """In the order of the columns."""

    def __init__(self, package: str, kind: type[AnyMeasured], places: Mapping[str, Place]) -> None:
        self._package = package
        self._kind = kind
        self._places = places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def adapter(self, name: str) -> AnyMeasured:
        found = import_module(f"{self._package}.{self._places[name].module}").ADAPTER
        assert isinstance(found, self._kind)
        return found

    def colour(self, name: str) -> str:
        return self._places[name].colour

    def installed(self) -> tuple[str, ...]:
        return tuple(name for name, place in self._places.items() if util.find_spec(place.imports) is not None)

    def chosen(self, wanted: frozenset[str]) -> tuple[str, ...]:
        """Those that are installed, or of these the ones that are wanted."""
        return tuple(name for name in self.installed() if not wanted or name in wanted)

    def slow(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.adapter(name).slow]

    def described(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        return {name: self.adapter(name).described() for name in names}

    def versions(self) -> dict[str, str]:
        """Of those that are installed as packages."""
        found = {}
        for name in self.installed():
            with suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(self._places[name].distribution or name)
        return found
