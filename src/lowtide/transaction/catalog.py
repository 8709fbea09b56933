"""The keyspaces by name and number.

A name gets its number in memory when it is first used, and a row in the base before the first commit that writes to
it is logged; so whoever reads the log or the base can name what is in them. Numbers are never reused. A name whose
first commit failed stays in the base: it is an empty keyspace, as one that was never written.

Who writes: names and numbers under ``_lock``; a lock-free reader sees a name with its final number or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from lowtide.base.codec import KEYSPACE_PREFIX, decode_keyspace, encode_keyspace
from lowtide.errors import UsageError
from lowtide.log.frame import Writes

_MAX_NAME = 200


class Catalog:
    """The names of the keyspaces. ``save`` writes one to the base; it may be repeated."""

    def __init__(self, saved: Iterable[tuple[str, bytes]], save: Callable[[str, bytes], None]) -> None:
        self._save = save
        self._lock = threading.Lock()
        self._names: dict[bytes, str] = {}
        self._prefixes: dict[str, bytes] = {}
        self.unsaved: dict[bytes, str] = {}
        """Keyspaces that the base does not know yet; ``save_used`` is needed only while there are any."""
        self._last_number = 0
        for name, prefix in saved:
            self._add(name, prefix)

    def _add(self, name: str, prefix: bytes) -> None:
        self._last_number = max(self._last_number, decode_keyspace(prefix))
        self._names[prefix] = name
        self._prefixes[name] = prefix

    def prefix_of(self, name: str) -> bytes:
        """The prefix of the keyspace's full keys."""
        prefix = self._prefixes.get(name)
        return prefix if prefix is not None else self._create(name)

    def _create(self, name: str) -> bytes:
        if not isinstance(name, str) or not name:
            raise UsageError(f"a keyspace is named by a string that is not empty, not by {name!r}")
        if len(name.encode()) > _MAX_NAME:
            raise UsageError(f"a keyspace's name may be {_MAX_NAME} bytes long at most: {name[:40]!r}...")
        with self._lock:
            if name not in self._prefixes:
                prefix = encode_keyspace(self._last_number + 1)
                self.unsaved[prefix] = name
                self._add(name, prefix)
            return self._prefixes[name]

    def save_used(self, writes: Writes) -> None:
        """Make sure that the base knows the keyspaces of ``writes``; called before they are logged."""
        for prefix in {key[:KEYSPACE_PREFIX] for key in writes}:
            name = self.unsaved.get(prefix)
            if name is not None:
                self._save(name, prefix)
                self.unsaved.pop(prefix, None)

    def describe(self, full_key: bytes) -> tuple[str, bytes]:
        """The keyspace's name and the user's key."""
        return self._names.get(full_key[:KEYSPACE_PREFIX], "?"), full_key[KEYSPACE_PREFIX:]

    def names(self) -> list[str]:
        """The keyspaces that were ever written to."""
        return sorted(name for prefix, name in list(self._names.items()) if prefix not in self.unsaved)
