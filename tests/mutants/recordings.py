"""The mutants that break isolation, each with the story whose recording convicts it and the anomaly that this shows."""

from __future__ import annotations

from typing import Final

STORIES: Final = "tests/isolation/test_recorded_stories.py"

CONVICTED: Final[dict[str, tuple[str, str]]] = {
    "last committer wins": ("test_two_updates", "lost-update"),
    "conflicts forgotten at a checkpoint": ("test_an_update_beside_one_that_is_in_the_base", "lost-update"),
    "no conflicts within a group": ("test_two_updates_in_one_group", "lost-update"),
    "guards ignore the group": ("test_increments_in_one_group", "lost-update"),
    "a statement does not guard what it writes": ("test_increments_one_after_the_other", "lost-update"),
    "no phantom check": ("test_each_fills_a_range_that_both_found_empty", "write-skew"),
    "missing keys are no reads": ("test_each_inserts_what_the_other_did_not_find", "write-skew"),
    "a savepoint takes reads back": ("test_what_was_read_in_a_savepoint", "write-skew"),
    "visible before it is installed": ("test_a_reader_beside_a_publication", "G-single"),
    "registration is not atomic": ("test_a_reader_that_begins_beside_a_collection", "stale-read"),
    "reads pass over the frozen layer": ("test_readers_beside_a_checkpoint", "G-single"),
    "the frozen layer goes too early": ("test_readers_beside_a_checkpoint", "G-single"),
    "a snapshot sees the next commit": ("test_readers_beside_a_checkpoint", "G-single"),
    "the snapshot right before the boundary does not count": ("test_readers_beside_a_checkpoint", "G-single"),
    "the cache survives a checkpoint": ("test_reads_after_checkpoints", "stale-read"),
    "a row that is too new hides the old one": ("test_readers_of_four_epochs", "garbage"),
    "an interval begins one commit late": ("test_readers_of_four_epochs", "G-single"),
    "an interval ends one commit late": ("test_readers_of_four_epochs", "G-single"),
    "the edge of an interval is garbage": ("test_readers_of_four_epochs", "G-single"),
    "the head is pruned early": ("test_readers_that_end_one_after_the_other", "G-single"),
    "nothing goes to the history": ("test_readers_of_four_epochs", "G-single"),
    "the base's own version is not kept": ("test_readers_of_four_epochs", "G-single"),
    "deletions leave no tombstone": ("test_a_key_that_was_deleted", "lost-update"),
    "a tombstone goes before the base knows": ("test_a_key_that_was_deleted_while_no_reader_lives", "stale-read"),
    "a put leaves the gaps as they are": ("test_what_is_put_among_deleted_keys", "stale-read"),
    "a gap is noted without a look at what was put meanwhile": (
        "test_what_is_put_behind_a_scan_of_deleted_keys",
        "stale-read",
    ),
    "an old snapshot notes gaps below the boundary": (
        "test_what_is_put_and_in_the_base_after_an_old_scan",
        "stale-read",
    ),
    "a publisher leaves the table to the scan that holds the lock": (
        "test_what_is_put_while_a_scan_notes_deleted_keys",
        "stale-read",
    ),
}

_OWN = "it changes only what a transaction sees of its own writes, which is not recorded"
_DELETED = "a scan does not find keys that are deleted elsewhere, and a scan does not tell which state of those it saw"
_UNRECORDED = "it changes reads that only snapshots make, which are not transactions and are not recorded"
_ALONE = "a store that is recorded runs each statement in a transaction"
_AT_ONCE = "a store that is recorded submits each commit as a request"
_NO_READ = "no read is wrong: it breaks durability, liveness, cost or what is told about the store"

ACQUITTED: Final[dict[str, str]] = {
    "a savepoint keeps a write": _OWN,
    "scans do not show own writes": _OWN,
    "own puts leave the own gaps as they are": _OWN,
    "own gaps outlive a savepoint": _OWN,
    "a gap serves snapshots from before the deletions": _DELETED,
    "a gap reaches over keys with later versions": _DELETED,
    "whole ranges pass over the layers": _UNRECORDED,
    "whole ranges pass over the history": _UNRECORDED,
    "pruning without the time bound": "it opens a window between two reads of the registry that no point stands in",
    "names stay behind": "a store that is opened again lacks a keyspace, and each opening is a history by itself",
    "installed before it is logged": _NO_READ,
    "what was read last stands for any key": _NO_READ,
    "a count of the history is kept for a later state": _NO_READ,
    "a group acknowledges early": _NO_READ,
    "a group is as durable as its first member": _NO_READ,
    "a commit forgets its snapshot too early": _NO_READ,
    "a commit is validated without its snapshot": _NO_READ,
    "live before it is named": _NO_READ,
    "a registration has two owners": _NO_READ,
    "no commit gives way to a turn": _NO_READ,
    "a turn without an end": _NO_READ,
    "a holder of a turn gives way": _NO_READ,
    "turns out of order": _NO_READ,
    "scans never note a gap": _NO_READ,
    "tombstones never go": _NO_READ,
    "a snapshot that ended is not looked after": _NO_READ,
    "the end of a snapshot keeps its memory": _NO_READ,
    "a sweep forgets the other stretches": _NO_READ,
    "the history waits for the oldest": _NO_READ,
    "garbage is not counted": _NO_READ,
    "a sweep drops what nobody has counted": _NO_READ,
    "the boundary is outside the transaction": _NO_READ,
    "the log goes before the base is durable": _NO_READ,
    "a moved boundary is not noticed": "it takes two processes that apply a checkpoint at once",
    "the helper goes by its early sample": "it takes a helper process that is stopped between two requests",
    "a lost answer is forgotten": _NO_READ,
    "a commit at once does not look again under the lock": _AT_ONCE,
    "a commit at once forgets its snapshot too early": _AT_ONCE,
    "a commit at once leaves those that wait": _AT_ONCE,
    "a statement alone is not compared": _ALONE,
    "a statement that is run again does not see its group": _ALONE,
    "a statement alone relies on its keys only": _ALONE,
    "a statement alone does not look at the boundary": _ALONE,
    "a statement alone ignores the catalog row": _ALONE,
    "pages are trusted after their transaction has ended": "it takes the map to grow within one read of pages",
    "leaf pages show rows of every commit": "only a compiled build reads pages, and mutants are plain Python",
    "a damaged key sends a scan back": "it takes a damaged page",
    "a deleted key is told to have existed": _NO_READ,
}
"""The other mutants of the layers that reads go through, and why no recording convicts them."""
