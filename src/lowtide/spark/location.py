"""The location of a store. Tasks that may run on another machine use it to check that they see the same store."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from lowtide.engine import MANIFEST, read_manifest
from lowtide.errors import UsageError
from lowtide.system.identity import boot_id


@dataclass(frozen=True)
class StoreLocation:
    """A store's directory on one machine."""

    path: str
    store_id: bytes
    host: str
    boot: str

    @classmethod
    def here(cls, path: Path) -> StoreLocation:
        """The store in ``path`` on this machine."""
        manifest = path / MANIFEST
        if not manifest.exists():
            raise UsageError(f"there is no Lowtide store in {path} on {socket.gethostname()}; check the option 'path'")
        return cls(str(path), read_manifest(manifest)[0], socket.gethostname(), boot_id())

    def check(self) -> Path:
        """The directory. Raises UsageError if this is another machine, or another store is in the directory."""
        if self.boot != boot_id():
            raise UsageError(self._elsewhere("which is another machine"))
        path = Path(self.path)
        try:
            found = read_manifest(path / MANIFEST)[0]
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(self._elsewhere("where that directory does not exist")) from None
        if found != self.store_id:
            raise UsageError(self._elsewhere("where another store is in that directory"))
        return path

    def _elsewhere(self, why: str) -> str:
        return (
            f"the store {self.path} is on the local disk of {self.host}, and this task runs on {socket.gethostname()}, "
            f"{why}. Run the executors on the store's machine, or write a snapshot with lowtide.spark.export(...) to "
            "storage that all machines have, and read that"
        )
