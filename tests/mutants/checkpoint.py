"""Faults of the checkpoint: steps in the wrong order, and steps that are left out."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "the frozen layer goes too early",
        "The layer is dropped before the base has it: for a while its commits are nowhere.",
        "engine/checkpoint/checkpointer.py",
        (
            (
                (
                    "        applied = self._apply(layer, target)  # point: checkpoint.apply\n"
                    "        self._versions.drop_frozen()  # point: checkpoint.applied\n"
                ),
                (
                    "        self._versions.drop_frozen()\n"
                    "        applied = self._apply(layer, target)  # point: checkpoint.apply\n"
                    "        self._published()  # point: checkpoint.applied\n"
                ),
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
        "the boundary is outside the transaction",
        "The boundary is written after the rows that it covers, in a transaction of its own.",
        "engine/checkpoint/apply.py",
        (
            (
                "        base.put_boundary(txn, target.upto)  # point: checkpoint.boundary\n",
                "        base.boundary_in(txn)  # point: checkpoint.boundary\n",
            ),
            (
                "    return base.write(change)\n",
                (
                    "    applied = base.write(change)\n"
                    "    base.write(lambda txn: base.put_boundary(txn, target.upto))\n"
                    "    return applied\n"
                ),
            ),
        ),
        ("tests/unit/engine/checkpoint/test_apply.py::test_all_of_it_is_one_transaction_of_lmdb",),
    ),
    Mutant(
        "the log goes before the base is durable",
        "Segments are released as soon as a checkpoint begins: if it fails, and the process with it, commits are lost.",
        "engine/checkpoint/checkpointer.py",
        (
            (
                "                while self._versions.boundary < wanted:\n",
                (
                    "                self._log.release(self._retained_from(wanted))\n"
                    "                while self._versions.boundary < wanted:\n"
                ),
            ),
        ),
        (
            (
                "tests/crash/test_failed_checkpoint.py::"
                "test_a_failure_is_seen_and_harms_nobody_and_the_retry_works[checkpoint.sampled-DiskFull]"
            ),
        ),
    ),
    Mutant(
        "nothing goes to the history",
        "A checkpoint overwrites what live snapshots see.",
        "engine/checkpoint/apply.py",
        (
            (
                "    if keep:\n        base.history.add(txn, keep)\n",
                "",
            ),
        ),
        ("tests/unit/engine/checkpoint/test_apply.py::test_rows_history_tombstones_names_and_boundary_come_together",),
    ),
    Mutant(
        "the base's own version is not kept",
        "A checkpoint keeps the versions of the chains for live snapshots, but not the one that it finds in the base.",
        "engine/checkpoint/plan.py",
        (
            (
                (
                    "        if horizon.needs(begin, end):\n"
                    "            keep.append((Interval(begin, end, full_key), row_value(old_row)))\n"
                ),
                "        begin = begin + 0\n",
            ),
        ),
        (
            "tests/unit/engine/checkpoint/test_plan.py::test_what_a_live_snapshot_sees_moves_to_the_history[live0-kept0]",
        ),
    ),
    Mutant(
        "the snapshot right before the boundary does not count",
        "A checkpoint drops what a snapshot sees that was taken one commit before its boundary.",
        "engine/garbage/horizon.py",
        (
            (
                "        older = bisect_left(self.live, self.bound)\n",
                "        older = bisect_left(self.live, self.bound - 1)\n",
            ),
        ),
        (
            (
                "tests/unit/engine/checkpoint/test_apply.py::"
                "test_a_snapshot_right_before_the_boundary_keeps_what_it_sees_and_one_at_it_keeps_nothing"
            ),
        ),
    ),
    Mutant(
        "names stay behind",
        "A checkpoint brings the rows of a new keyspace to the base, but not its name.",
        "engine/checkpoint/apply.py",
        (
            (
                "        base.put_keyspaces(txn, changes.names)\n",
                "",
            ),
        ),
        ("tests/unit/engine/checkpoint/test_apply.py::test_rows_history_tombstones_names_and_boundary_come_together",),
    ),
    Mutant(
        "a moved boundary is not noticed",
        "A checkpoint does not look whether another process moved the boundary meanwhile, and moves it back.",
        "engine/checkpoint/apply.py",
        (
            (
                (
                    "        if found is not None and found >= target.upto:\n"
                    "            return Applied(0, 0, None)\n"
                    "        if found != target.boundary:\n"
                ),
                "        if False:\n",
            ),
        ),
        ("tests/unit/engine/checkpoint/test_apply.py::test_a_boundary_that_moved_is_no_ground_to_build_on[0]",),
    ),
    Mutant(
        "the helper goes by its early sample",
        "The helper process keeps versions for those who lived when it was asked, not when it writes.",
        "engine/checkpoint/helper.py",
        (
            (
                "        return make_horizon(request.collector, sampled.live, request.upto), sampled.oldest_writer\n",
                "        return make_horizon(request.collector, request.live, request.upto), sampled.oldest_writer\n",
            ),
        ),
        (
            (
                "tests/unit/engine/checkpoint/test_helper.py::test_who_lives_is_what_the_owner_says_inside_the_transaction"
            ),
            "tests/unit/engine/checkpoint/test_helper.py::test_who_ended_since_the_request_was_made_keeps_nothing",
        ),
    ),
    Mutant(
        "a lost answer is forgotten",
        "What a helper process kept, whose answer was lost, is never counted: it stays when those who saw it end.",
        "engine/garbage/collector.py",
        (("        if kept is None:\n            self.look_everywhere()\n        elif", "        if"),),
        (
            "tests/unit/engine/garbage/test_collector.py::test_what_nobody_has_counted_is_counted_by_a_sweep_of_everything",
        ),
    ),
]
