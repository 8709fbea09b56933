"""Faults in what a snapshot sees: layers, cache, own writes, history."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "reads pass over the frozen layer",
        "While a checkpoint runs, a read finds neither what is frozen nor what the base does not have yet.",
        "engine/versions/visibility.py",
        (
            (
                "        if frozen is not None:\n            chain = frozen.chains.get(full_key)\n            while",
                "        if frozen is not None:\n            chain = None\n            while",
            ),
        ),
        (
            (
                "tests/race/test_checkpoint.py::"
                "test_readers_of_every_age_read_their_instant_throughout[update-checkpoint.sampled]"
            ),
        ),
    ),
    Mutant(
        "the cache survives a checkpoint",
        "Rows that were cached before a checkpoint hide the newer ones that it brought to the base.",
        "engine/versions/layers.py",
        (
            (
                "        view = View((self.active, None, cache))\n",
                "        view = View((self.active, None, self.view[2]))\n",
            ),
        ),
        ("tests/unit/engine/versions/test_layers.py::test_the_cache_of_rows_is_replaced_together_with_the_layer",),
    ),
    Mutant(
        "scans do not show own writes",
        "A scan shows what is committed only, though a point read shows the transaction's own writes.",
        "engine/versions/own.py",
        (
            (
                "        for key in keys[first:end]:\n",
                "        for key in keys[end:end]:\n",
            ),
        ),
        (
            (
                "tests/isolation/test_own_writes.py::"
                "test_a_scan_lays_own_writes_over_what_is_committed[chains-Isolation.READ_COMMITTED-False]"
            ),
        ),
    ),
    Mutant(
        "a row that is too new hides the old one",
        "Where the base has a newer version, a point read takes the key for absent and does not ask the history.",
        "engine/versions/visibility.py",
        (("        return self._base.read_history(full_key, ts)", "        return None"),),
        ("tests/isolation/test_epochs.py::test_readers_at_four_epochs_see_four_states[moving-Isolation.SNAPSHOT]",),
    ),
    Mutant(
        "whole ranges pass over the layers",
        "Values that are read without their keys are those of the base, whatever was committed since its checkpoint.",
        "engine/versions/visibility.py",
        (
            (
                "            nearest = min(touched, default=None)\n",
                "            nearest = min(touched[:0], default=None)\n",
            ),
        ),
        ("tests/unit/documents/test_reader.py::test_batches_are_what_a_plan_gives_wherever_it_lies[layers-{}]",),
    ),
    Mutant(
        "whole ranges pass over the history",
        "Values that are read without their keys lack those that were superseded since.",
        "engine/base/visible.py",
        (
            (
                "        if self.old and distinct_keys(",
                "        if False and distinct_keys(",
            ),
        ),
        ("tests/unit/documents/test_reader.py::test_batches_are_what_a_plan_gives_wherever_it_lies[both-{}]",),
    ),
    Mutant(
        "a snapshot sees the next commit",
        "A chain is read one commit too far.",
        "engine/versions/visibility.py",
        (
            (
                "  # point: read.chains\n        while chain is not None:\n            if chain[0] <= ts:\n",
                "  # point: read.chains\n        while chain is not None:\n            if chain[0] <= ts + 1:\n",
            ),
        ),
        ("tests/isolation/test_epochs.py::test_readers_at_four_epochs_see_four_states[chains-Isolation.SNAPSHOT]",),
    ),
    Mutant(
        "an interval begins one commit late",
        "The history does not show a version to the snapshot of the very commit that wrote it.",
        "engine/base/history.py",
        (
            (
                "        if decode_ts(interval[8:]) > ts:\n",
                "        if decode_ts(interval[8:]) >= ts:\n",
            ),
        ),
        ("tests/isolation/test_epochs.py::test_readers_at_four_epochs_see_four_states[moving-Isolation.SNAPSHOT]",),
    ),
    Mutant(
        "an interval ends one commit late",
        "The history shows a version to the snapshot of the commit that superseded it.",
        "engine/base/history.py",
        (
            (
                "        if not cursor.set_range_dup(full_key, encode_ts(ts + 1)):\n",
                "        if not cursor.set_range_dup(full_key, encode_ts(ts)):\n",
            ),
        ),
        ("tests/isolation/test_epochs.py::test_readers_at_four_epochs_see_four_states[moving-Isolation.SNAPSHOT]",),
    ),
    Mutant(
        "a put leaves the gaps as they are",
        "What is put among deleted keys is hidden from every later scan.",
        "engine/versions/gap_map.py",
        (("            if gaps := without(of[prefix], inside):\n", "            if gaps := of[prefix]:\n"),),
        (
            "tests/unit/engine/versions/test_gap_map.py::test_a_put_cuts_its_key_out_and_a_deletion_does_not",
            "tests/unit/engine/versions/test_deleted_keys.py::test_what_is_pushed_into_the_deleted_part_is_popped_next",
        ),
    ),
    Mutant(
        "a gap is noted without a look at what was put meanwhile",
        "A put that comes while a scan is among the deleted keys is hidden from every later scan.",
        "engine/versions/gap_map.py",
        (("without(gaps, watch.puts[:])", "without(gaps, watch.puts[:0])"),),
        (
            "tests/unit/engine/versions/test_gap_map.py::test_what_is_put_while_a_scan_watches_is_cut_out_of_what_it_notes",
            "tests/race/test_gaps.py::test_a_put_behind_a_scan_that_goes_on_is_cut_out_of_what_it_notes",
        ),
    ),
    Mutant(
        "a gap serves snapshots from before the deletions",
        "An old snapshot does not see what was deleted after it.",
        "engine/versions/gaps.py",
        (
            (
                "gaps[at].high >= high and gaps[at].since <= ts:\n",
                "gaps[at].high >= high:\n",
            ),
            (
                "gaps[at].low <= low < gaps[at].high and gaps[at].since <= ts:\n",
                "gaps[at].low <= low < gaps[at].high:\n",
            ),
        ),
        (
            "tests/unit/engine/versions/test_gaps.py::test_an_older_snapshot_does_not_use_a_gap",
            "tests/race/test_gaps.py::test_a_gap_is_not_used_by_a_snapshot_from_before_the_deletions",
        ),
    ),
    Mutant(
        "a gap reaches over keys with later versions",
        "A key that was put and deleted after an old snapshot is hidden from the snapshots in between.",
        "engine/versions/visibility.py",
        (("([newer] if newer is not None else [])", "[]"), (" or newer is not None:\n", ":\n")),
        ("tests/race/test_gaps.py::test_what_was_put_and_deleted_after_an_old_snapshot_is_seen_by_those_in_between",),
    ),
    Mutant(
        "an old snapshot notes gaps below the boundary",
        "What was put after the snapshot and brought to the base by a checkpoint is hidden from later scans.",
        "engine/versions/visibility.py",
        (("            if ts >= self._versions.boundary:\n", "            if ts:\n"),),
        ("tests/race/test_gaps.py::test_an_old_snapshot_does_not_note_what_was_put_and_checkpointed_after_it",),
    ),
    Mutant(
        "a publisher leaves the table to the scan that holds the lock",
        "A put that comes between a scan's look at the puts and its note is hidden from every later scan.",
        "engine/versions/gap_map.py",
        (("            self.of = {}\n\n    def _cut", "            pass\n\n    def _cut"),),
        (
            "tests/race/test_gaps.py::test_a_put_that_comes_while_a_scan_notes_is_seen_by_all_who_begin_later",
            (
                "tests/unit/engine/versions/test_gap_map.py::"
                "test_a_put_that_meets_a_scan_noting_forgets_everything_and_does_not_wait"
            ),
        ),
    ),
    Mutant(
        "scans never note a gap",
        "Each scan comes through all that was deleted since the last checkpoint.",
        "engine/versions/visibility.py",
        (("                gaps.note(watch, dead, ts,", "                (watch, dead, ts,"),),
        ("tests/unit/engine/versions/test_deleted_keys.py::test_find_one_after_most_were_deleted",),
    ),
    Mutant(
        "own puts leave the own gaps as they are",
        "A transaction does not find in a scan what it put where it had deleted before.",
        "engine/versions/own.py",
        (("            self.gaps = without(self.gaps, puts)\n", "            pass\n"),),
        ("tests/unit/engine/versions/test_own.py::test_what_is_put_into_an_own_gap_is_shown",),
    ),
    Mutant(
        "own gaps outlive a savepoint",
        "A transaction does not find in a scan what it deleted in a savepoint that was rolled back.",
        "engine/versions/own.py",
        (("        self._keys = None\n        self.gaps = ()\n", "        self._keys = None\n"),),
        ("tests/unit/engine/versions/test_own.py::test_what_was_deleted_in_a_savepoint_that_is_undone_is_shown_again",),
    ),
    Mutant(
        "pages are trusted after their transaction has ended",
        "The map grows while leaf pages are decoded, LMDB reuses them, and the scan returns what it has read there.",
        "engine/base/leaf_file.py",
        (("                txn.id()  # raises if the transaction was ended meanwhile\n", ""),),
        (("tests/unit/engine/base/test_leaves.py::test_a_read_whose_transaction_ended_meanwhile_is_repeated"),),
    ),
    Mutant(
        "leaf pages show rows of every commit",
        "A scan of the compiled build shows rows that are newer than its snapshot.",
        "engine/base/leaves.py",
        (
            (
                "                if 0 <= _ts(page, value) <= ts:\n                    found.append((page",
                "                if 0 <= _ts(page, value):\n                    found.append((page",
            ),
        ),
        ("tests/unit/engine/base/test_leaves.py::test_keys_lose_the_prefix_and_rows_their_timestamp",),
    ),
    Mutant(
        "a damaged key sends a scan back",
        "The last key of a stretch lies before its first one, so the scan reads the same stretch again and again.",
        "engine/base/leaves.py",
        (
            (
                "                    if last < low:  # the caller goes on after it, so it would never end\n",
                "                    if last is None:\n",
            ),
        ),
        (("tests/unit/engine/base/test_leaves.py::test_a_stretch_that_would_end_before_its_beginning_is_refused"),),
    ),
    Mutant(
        "a deleted key is told to have existed",
        "The base keeps a tombstone of a deleted key, and a batch that puts it again is logged as an update.",
        "engine/base/environment.py",
        (
            (
                '                if ts < self.history_below or txn.stat(self.tombstones)["entries"]:\n',
                "                if ts < self.history_below:\n",
            ),
        ),
        ("tests/unit/engine/versions/test_presence.py::test_a_key_that_left_a_tombstone_is_told_to_be_new",),
    ),
]
