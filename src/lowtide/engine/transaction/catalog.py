"""The keyspaces by name and number.

A name gets its number in memory when it is first used. The first commits that write to the keyspace carry the name in
the log, and the checkpoint writes it to the base with them. So log and base both have the names of what they hold.
Numbers are never reused.

Who writes: names and numbers under ``_lock``; a lock-free reader sees a name with its final number or not at all. Only
``logged`` removes from ``unlogged``, after the log has the name; two concurrent first commits both carry it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from operator import itemgetter

from lowtide.engine.base.codec import decode_keyspace, encode_keyspace
from lowtide.engine.types import KEYSPACE_PREFIX, Names, Writes
from lowtide.errors import TransientError, UsageError

_MAX_NAME = 200
_BLOCK = 64
"""How many numbers are reserved at a time."""

_prefix = itemgetter(slice(KEYSPACE_PREFIX))

NOWHERE = b"\xff" * KEYSPACE_PREFIX
"""The prefix of a keyspace that does not exist: no key begins with it."""


class Catalog:
    """The names of the keyspaces, and which of them are not in the log yet."""

    def __init__(
        self,
        saved: Iterable[tuple[str, bytes]],
        *,
        fixed: bool = False,
        assign: Callable[[str], bytes] | None = None,
        reserved: int = 0,
        reserve: Callable[[int], None] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._fixed = fixed
        """Whether another process, the owner of the store, assigns the numbers."""
        self._assign = assign
        """Has the owner assign a number, in a joined process."""
        self._reserve = reserve
        """Reserves all numbers up to a given one, durably, for joined processes."""
        self._reserved = reserved
        self._names: dict[bytes, str] = {}
        self.prefixes: dict[str, bytes] = {}
        """Name to prefix of the keyspaces that were used."""
        self.unlogged: dict[bytes, str] = {}
        """Keyspaces that are not in the log yet; ``names_to_log`` is needed only while there are any."""
        self._last_number = reserved
        for name, prefix in saved:
            self._add(name, prefix)

    def _add(self, name: str, prefix: bytes) -> None:
        self._last_number = max(self._last_number, decode_keyspace(prefix))
        self._names[prefix] = name
        self.prefixes[name] = prefix

    def learn(self, names: Iterable[tuple[str, bytes]]) -> None:
        """Add names that the owner of the store assigned, and that are in the log."""
        with self._lock:
            for name, prefix in names:
                self._add(name, prefix)
                if self.unlogged.get(prefix) == name:
                    del self.unlogged[prefix]

    def assign(self, name: str) -> bytes:
        """The prefix of a keyspace for a joined process. Its number is reserved first: if this process dies before the
        log has the name, the next owner gives the number to no other keyspace."""
        with self._lock:
            if name not in self.prefixes and self._last_number >= self._reserved and self._reserve is not None:
                self._reserve(self._last_number + _BLOCK)
                self._reserved = self._last_number + _BLOCK
        return self.prefix_of(name)

    def adopt(self, names: Names) -> None:
        """Adopt the names in a joined process's commit, which this or an earlier owner assigned to it. Raises
        TransientError if one of the keyspaces now has another number; the process then asks for it again."""
        with self._lock:
            for name, prefix in names.items():
                if self.prefixes.get(name, prefix) != prefix or self._names.get(prefix, name) != name:
                    raise TransientError(
                        f"the keyspace {name!r} was created by another transaction; nothing was written; retry"
                    )
            for name, prefix in names.items():
                if name not in self.prefixes:
                    self.unlogged[prefix] = name
                    self._add(name, prefix)

    def forget(self, names: Names) -> None:
        """Forget the numbers of these keyspaces, so that the owner is asked again when they are next used. Writes under
        the old numbers still carry these names, so that the owner refuses them."""
        with self._lock:
            for name, prefix in names.items():
                if self.prefixes.get(name) == prefix:
                    del self.prefixes[name]

    def has(self, prefixes: Iterable[bytes]) -> bool:
        """Whether all of these prefixes belong to keyspaces."""
        return all(prefix in self._names for prefix in prefixes)

    def prefix_of(self, name: str) -> bytes:
        """The prefix of the keyspace's full keys, assigned now if the keyspace is new. NOWHERE if only another process
        may assign it."""
        try:
            return self.prefixes[name]
        except (KeyError, TypeError):
            pass
        if not isinstance(name, str) or not name:
            raise UsageError(f"the name of a keyspace must be a non-empty string, not {name!r}")
        if len(name.encode(errors="replace")) > _MAX_NAME:
            raise UsageError(f"the name of a keyspace may be at most {_MAX_NAME} bytes long: {name[:40]!r}...")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"the name of a keyspace must be encodable as UTF-8: {error}") from error
        if self._assign is not None:
            prefix = self._assign(name)
            with self._lock:
                if name not in self.prefixes:
                    self.unlogged[prefix] = name
                    self._add(name, prefix)
                return self.prefixes[name]
        with self._lock:
            if name not in self.prefixes and self._fixed:
                return NOWHERE
            if name not in self.prefixes:
                prefix = encode_keyspace(self._last_number + 1)
                self.unlogged[prefix] = name
                self._add(name, prefix)
            return self.prefixes[name]

    def names_to_log(self, writes: Writes) -> Names | None:
        """The keyspaces of ``writes`` that are not in the log yet, for the commit to carry."""
        if len(writes) == 1:
            (key,) = writes
            prefix = key[:KEYSPACE_PREFIX]
            return {self.unlogged[prefix]: prefix} if prefix in self.unlogged else None
        prefixes = set(map(_prefix, writes))
        names = {name: prefix for prefix in prefixes if (name := self.unlogged.get(prefix)) is not None}
        return names or None

    def logged(self, names: Names) -> None:
        """Record that these names are in the log."""
        for prefix in names.values():
            self.unlogged.pop(prefix, None)

    def name_of(self, prefix: bytes) -> str:
        """The name of a keyspace."""
        return self._names.get(prefix, "?")

    def describe(self, full_key: bytes) -> tuple[str, bytes]:
        """The keyspace's name and the user's key."""
        return self.name_of(full_key[:KEYSPACE_PREFIX]), full_key[KEYSPACE_PREFIX:]

    def names(self) -> list[str]:
        """The keyspaces that have been written to."""
        return sorted(name for prefix, name in list(self._names.items()) if prefix not in self.unlogged)
