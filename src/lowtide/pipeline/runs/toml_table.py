"""Reads a table of a TOML file key by key, and collects every problem, so all of them are reported at once.

Nothing here raises: a wrong value becomes a problem, with the full name of its key, and the default is returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from lowtide.errors import UsageError, shown
from lowtide.system.quantities import seconds_of

_KINDS: Final = {
    str: "a text in quotes",
    int: "a whole number",
    list: "a list in brackets",
    dict: "a table",
}


class TomlTable:
    """One table. ``name`` is its full name, empty for the file itself; ``problems`` is shared with all tables below."""

    def __init__(self, values: Mapping[str, Any], name: str = "", problems: list[str] | None = None) -> None:
        self._values = values
        self._name = name
        self._known: list[str] = []
        self.problems: list[str] = [] if problems is None else problems

    def key(self, name: str) -> str:
        """The full name of a key."""
        return f"{self._name}.{name}" if self._name else name

    def wrong(self, name: str, what: str) -> None:
        """Keep a problem with a key."""
        self.problems.append(f"{self.key(name)}: {what}")

    def _value(self, name: str, kind: type) -> Any:
        self._known.append(name)
        value = self._values.get(name)
        if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
            return value
        self.wrong(name, f"{shown(value)} is not {_KINDS[kind]}")
        return None

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, *, required: str | None = None) -> str | None:
        """A text that is not empty. ``required`` says what to write if it is missing."""
        value: str | None = self._value(name, str)
        if value == "":
            self.wrong(name, "is empty; write a value, or leave the key out")
            return None
        if required is not None and not self.has(name):
            self.wrong(name, f"is missing; {required}")
        return value

    def number(self, name: str, *, default: int, least: int = 0) -> int:
        value: int | None = self._value(name, int)
        if value is not None and value < least:
            self.wrong(name, f"{value} is too small; write {least} or more")
            return default
        return default if value is None else value

    def any(self, name: str) -> Any:
        """A value that the caller checks."""
        self._known.append(name)
        return self._values.get(name)

    def duration(self, name: str) -> float | None:
        """Seconds above 0, from a text such as "90s" or "1h30m"."""
        value: str | None = self._value(name, str)
        if value is None:
            return None
        try:
            seconds = seconds_of(value)
        except UsageError as error:
            self.wrong(name, str(error))
            return None
        if seconds <= 0:
            self.wrong(name, f"{value!r} is not above 0; write a duration such as 1h")
            return None
        return seconds

    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        value: str | None = self._value(name, str)
        if value is not None and value not in choices:
            self.wrong(name, f"{value!r} is not known; write one of {', '.join(choices)}")
            return default
        return default if value is None else value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts, none twice; None if the key is missing."""
        values: list[Any] | None = self._value(name, list)
        if values is None:
            return None
        if not values or not all(isinstance(each, str) and each for each in values):
            self.wrong(name, f"{shown(values)} is not a list of texts with at least one; leave the key out for all")
            return None
        if len(set(values)) < len(values):
            self.wrong(name, "has a value twice; name each once")
        return tuple(dict.fromkeys(values))

    def settings(self, name: str) -> dict[str, str]:
        """A table of texts. Numbers and flags are taken as Spark writes them. Keys with dots may be written without
        quotes, which TOML takes for tables."""
        found: dict[str, str] = {}
        self._flatten(name, self._value(name, dict) or {}, "", found)
        return found

    def _flatten(self, name: str, values: Mapping[str, Any], prefix: str, found: dict[str, str]) -> None:
        for key, value in values.items():
            full = f"{prefix}{key}"
            if isinstance(value, dict):
                self._flatten(name, value, f"{full}.", found)
            elif isinstance(value, bool):
                found[full] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[full] = str(value)
            else:
                self.wrong(f"{name}.{full}", f"{shown(value)} is not a text, a number or true or false")

    def mapping(self, name: str) -> dict[str, Any] | None:
        """A table that the caller checks, as it is."""
        found: dict[str, Any] | None = self._value(name, dict)
        return found

    def table(self, name: str) -> TomlTable | None:
        """A table below this one; None if it is missing."""
        values: dict[str, Any] | None = self._value(name, dict)
        return None if values is None else TomlTable(values, self.key(name), self.problems)

    def tables(self, name: str) -> list[TomlTable]:
        """The tables of an array, written as ``[[name]]``."""
        values: list[Any] = self._value(name, list) or []
        found = []
        for number, each in enumerate(values, 1):
            if isinstance(each, dict):
                found.append(TomlTable(each, f"{self.key(name)}[{number}]", self.problems))
            else:
                self.wrong(f"{name}[{number}]", f"{shown(each)} is not a table; write [[{self.key(name)}]]")
        return found

    def finish(self) -> None:
        """Add a problem for each unknown key."""
        for name in self._values:
            if name not in self._known:
                near = get_close_matches(name, self._known, 1)
                known = ", ".join(self._known)
                self.wrong(
                    name, f"is not known; did you mean {near[0]}?" if near else f"is not known; there is {known}"
                )
