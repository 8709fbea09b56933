"""What is published, and who may still read older versions: shared by readers, commits and collectors."""

from __future__ import annotations

from typing import TypeVar


class Published:
    """The last published commit and the live snapshots. ``Registry`` is one, and says who writes what."""

    def __init__(self, published: int) -> None:
        self.published = published
        """The last commit that readers may see. Only the leader of a commit group writes it; it only grows."""
        self.syncing = False
        """Whether a commit waits for the disk. Written by the leader of a commit group; a hint for readers."""
        self.live: dict[int, int] = {}
        """The timestamps of the live snapshots, by token."""

    def timestamps(self) -> list[int]:
        """The timestamps that the collector must keep. Read ``published`` first; see ``Registry``."""
        return [ts for _, ts in items_of(self.live)]


_Value = TypeVar("_Value")


def items_of(table: dict[int, _Value]) -> list[tuple[int, _Value]]:
    """The entries of a table at one moment."""
    while True:
        try:
            return list(table.items())
        except RuntimeError:  # a destructor ran meanwhile and removed its entry
            continue
