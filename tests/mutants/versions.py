"""Faults of what a snapshot sees: layers, cache, own writes, history."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "reads pass over the frozen layer",
        "While a checkpoint runs, a read finds neither what is frozen nor what the base does not have yet.",
        "versions/visibility.py",
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
        "versions/layers.py",
        (
            (
                "            self.view = (self.active, None, cache)  # point: drop.view\n",
                "            self.view = (self.active, None, self.view[2])  # point: drop.view\n",
            ),
        ),
        ("tests/unit/versions/test_layers.py::test_the_cache_of_rows_is_replaced_together_with_the_layer",),
    ),
    Mutant(
        "scans do not show own writes",
        "A scan shows what is committed only, though a point read shows the transaction's own writes.",
        "versions/visibility.py",
        (
            (
                "    for key in own_keys[first:end]:\n",
                "    for key in own_keys[end:end]:\n",
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
        "versions/visibility.py",
        (("        return self._base.read_history(full_key, ts)", "        return None"),),
        ("tests/isolation/test_epochs.py::test_readers_at_four_epochs_see_four_states[moving-Isolation.SNAPSHOT]",),
    ),
    Mutant(
        "whole ranges pass over the layers",
        "Values that are read without their keys are those of the base, whatever was committed since its checkpoint.",
        "versions/visibility.py",
        (
            (
                "            nearest = min(touched, default=None)\n",
                "            nearest = min(touched[:0], default=None)\n",
            ),
        ),
        ("tests/unit/documents/test_look.py::test_batches_are_what_a_plan_gives_wherever_it_lies[layers-{}]",),
    ),
    Mutant(
        "whole ranges pass over the history",
        "Values that are read without their keys lack those that were superseded since.",
        "base/seen.py",
        (
            (
                "        if self.old and distinct_keys(",
                "        if False and distinct_keys(",
            ),
        ),
        ("tests/unit/documents/test_look.py::test_batches_are_what_a_plan_gives_wherever_it_lies[both-{}]",),
    ),
    Mutant(
        "a snapshot sees the next commit",
        "A chain is read one commit too far.",
        "versions/visibility.py",
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
        "base/history.py",
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
        "base/history.py",
        (
            (
                "        if not cursor.set_range_dup(full_key, encode_ts(ts + 1)):\n",
                "        if not cursor.set_range_dup(full_key, encode_ts(ts)):\n",
            ),
        ),
        ("tests/isolation/test_epochs.py::test_readers_at_four_epochs_see_four_states[moving-Isolation.SNAPSHOT]",),
    ),
]
