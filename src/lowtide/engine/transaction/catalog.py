"""The keyspaces by name and number.

A name gets its number in memory when it is first used. The first commits that write to it carry the name with them in
the log, and the checkpoint brings it to the base with them; so both say the names of what they hold. Numbers
are never reused.

Who writes: names and numbers under ``_lock``; a lock-free reader sees a name with its final number or not at all.
``unlogged`` only shrinks by ``logged``, after the log has the name; two first commits at once both carry it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from lowtide.engine.base.codec import decode_keyspace, encode_keyspace
from lowtide.engine.types import KEYSPACE_PREFIX, Names, Writes
from lowtide.errors import UsageError

_MAX_NAME = 200

NOWHERE = b"\xff" * KEYSPACE_PREFIX
"""The prefix of a keyspace that does not exist: no key begins with it."""


class Catalog:
    """The names of the keyspaces, and which of them the log does not know yet."""

    def __init__(self, saved: Iterable[tuple[str, bytes]], *, fixed: bool = False) -> None:
        self._lock = threading.Lock()
        self._fixed = fixed
        """Whether numbers are given out elsewhere, by the process that owns the store."""
        self._names: dict[bytes, str] = {}
        self.prefixes: dict[str, bytes] = {}
        """Name to prefix of the keyspaces that were used."""
        self.unlogged: dict[bytes, str] = {}
        """Keyspaces that the log does not know; ``names_to_log`` is needed only while there are any."""
        self._last_number = 0
        for name, prefix in saved:
            self._add(name, prefix)

    def _add(self, name: str, prefix: bytes) -> None:
        self._last_number = max(self._last_number, decode_keyspace(prefix))
        self._names[prefix] = name
        self.prefixes[name] = prefix

    def learn(self, names: Iterable[tuple[str, bytes]]) -> None:
        """Take over names that the owner of the store gave out."""
        with self._lock:
            for name, prefix in names:
                self._add(name, prefix)

    def prefix_of(self, name: str) -> bytes:
        """The prefix of the keyspace's full keys, which is given out now if need be; NOWHERE if that is not ours to
        do."""
        try:
            return self.prefixes[name]
        except (KeyError, TypeError):
            pass
        if not isinstance(name, str) or not name:
            raise UsageError(f"a keyspace is named by a string that is not empty, not by {name!r}")
        if len(name.encode(errors="replace")) > _MAX_NAME:
            raise UsageError(f"a keyspace's name may be {_MAX_NAME} bytes long at most: {name[:40]!r}...")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"a keyspace's name must be encodable as UTF-8: {error}") from error
        with self._lock:
            if name not in self.prefixes and self._fixed:
                return NOWHERE
            if name not in self.prefixes:
                prefix = encode_keyspace(self._last_number + 1)
                self.unlogged[prefix] = name
                self._add(name, prefix)
            return self.prefixes[name]

    def names_to_log(self, writes: Writes) -> Names | None:
        """The keyspaces of ``writes`` that the log does not know, for the commit to carry."""
        prefixes = {key[:KEYSPACE_PREFIX] for key in writes}
        names = {name: prefix for prefix in prefixes if (name := self.unlogged.get(prefix)) is not None}
        return names or None

    def logged(self, names: Names) -> None:
        """Note that the log has these."""
        for prefix in names.values():
            self.unlogged.pop(prefix, None)

    def name_of(self, prefix: bytes) -> str:
        """The name of a keyspace."""
        return self._names.get(prefix, "?")

    def describe(self, full_key: bytes) -> tuple[str, bytes]:
        """The keyspace's name and the user's key."""
        return self.name_of(full_key[:KEYSPACE_PREFIX]), full_key[KEYSPACE_PREFIX:]

    def names(self) -> list[str]:
        """The keyspaces that were ever written to."""
        return sorted(name for prefix, name in list(self._names.items()) if prefix not in self.unlogged)
