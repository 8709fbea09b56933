"""Faults of the checkpoint: the order of its steps, and what it must not leave out."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "the frozen layer goes too early",
        "The layer is dropped before the base has it: for a while its commits are nowhere.",
        "checkpoint/checkpointer.py",
        (
            (
                "        self._apply(layer, target)  # point: checkpoint.apply\n        self._versions.drop_frozen()  # point: checkpoint.applied\n",
                "        self._versions.drop_frozen()\n        self._apply(layer, target)  # point: checkpoint.apply\n        self._published()  # point: checkpoint.applied\n",
            ),
        ),
        ("tests/race/test_checkpoint.py",),
    ),
    Mutant(
        "the boundary is outside the transaction",
        "The boundary is written after the rows that it covers, in a transaction of its own.",
        "checkpoint/apply.py",
        (
            (
                "        base.put_boundary(txn, target.upto)  # point: checkpoint.boundary\n",
                "        base.boundary_in(txn)  # point: checkpoint.boundary\n",
            ),
            (
                "    return base.write(change)\n",
                "    applied = base.write(change)\n    base.write(lambda txn: base.put_boundary(txn, target.upto))\n    return applied\n",
            ),
        ),
        ("tests/unit/checkpoint/test_apply.py", "tests/crash/test_killed_checkpoint.py"),
    ),
    Mutant(
        "the log goes before the base is durable",
        "Segments are released as soon as a checkpoint begins: if it fails, and the process with it, commits are lost.",
        "checkpoint/checkpointer.py",
        (
            (
                "                while self._versions.boundary < wanted:\n",
                "                self._log.release(self._retained_from(wanted))\n                while self._versions.boundary < wanted:\n",
            ),
        ),
        ("tests/crash/test_failed_checkpoint.py", "tests/race/test_checkpoint_races.py"),
    ),
    Mutant(
        "nothing goes to the history",
        "A checkpoint overwrites what live snapshots see.",
        "checkpoint/apply.py",
        (("    if keep:\n        base.history.add(txn, keep)\n", ""),),
        ("tests/unit/checkpoint/test_apply.py",),
    ),
    Mutant(
        "the base's own version is not kept",
        "A checkpoint keeps the versions of the chains for live snapshots, but not the one that it finds in the base.",
        "checkpoint/plan.py",
        (
            (
                "        if horizon.needs(begin, end):\n            keep.append((Interval(begin, end, full_key), row_value(old_row)))\n",
                "        begin = begin + 0\n",
            ),
        ),
        ("tests/unit/checkpoint/test_plan.py",),
    ),
    Mutant(
        "names stay behind",
        "A checkpoint brings the rows of a new keyspace to the base, but not its name.",
        "checkpoint/apply.py",
        (("        base.put_keyspaces(txn, changes.names)\n", ""),),
        ("tests/unit/checkpoint/test_apply.py", "tests/unit/transaction/test_catalog.py"),
    ),
    Mutant(
        "a moved boundary is not noticed",
        "A checkpoint does not look whether another process moved the boundary meanwhile, and moves it back.",
        "checkpoint/apply.py",
        (
            (
                "        if found is not None and found >= target.upto:\n            return Applied(0, 0)\n        if found != target.boundary:\n",
                "        if False:\n",
            ),
        ),
        ("tests/unit/checkpoint/test_apply.py",),
    ),
]
