"""Faults of the collector: what goes too early, and what never goes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "pruning without the time bound",
        "A version goes although it ended after the live snapshots were read: one that began meanwhile loses it.",
        "garbage/horizon.py",
        (("        if end > self.bound:\n            return True\n", ""),),
        ("tests/unit/garbage/test_horizon.py",),
    ),
    Mutant(
        "the edge of an interval is garbage",
        "The snapshot of the very commit that wrote a version does not keep it.",
        "garbage/horizon.py",
        (
            ("from bisect import bisect_left\n", "from bisect import bisect_left, bisect_right\n"),
            (
                "        index = bisect_left(self.live, begin)\n",
                "        index = bisect_right(self.live, begin) + 0 * bisect_left((), 0)\n",
            ),
        ),
        ("tests/unit/garbage/test_horizon.py",),
    ),
    Mutant(
        "the head is pruned early",
        "The newest version of a chain goes while an older one stays for a snapshot: everybody reads the old one.",
        "garbage/prune.py",
        (
            (
                "    return (chain[0], chain[1], rest)\n",
                "    return rest if rest is not None else (chain[0], chain[1], rest)\n",
            ),
        ),
        ("tests/unit/garbage/test_prune.py",),
    ),
    Mutant(
        "a tombstone goes before the base knows",
        "A deletion is dropped from memory while an older version lies in the base: the key comes back.",
        "versions/layers.py",
        (
            (
                "            chains[key] = (ts, value, None)\n            while older",
                "            if value is None:\n                del chains[key]\n            else:\n                chains[key] = (ts, value, None)\n            while older",
            ),
        ),
        ("tests/garbage/test_table.py",),
    ),
    Mutant(
        "deletions leave no tombstone",
        "A checkpoint removes a deleted key's row although an older writer lives: it does not notice the deletion.",
        "checkpoint/plan.py",
        (("    if oldest_writer is not None and oldest_writer < ts:\n", "    if False:\n"),),
        ("tests/isolation/test_late_conflicts.py", "tests/unit/checkpoint/test_plan.py"),
    ),
    Mutant(
        "tombstones never go",
        "The rows that deletions leave for older writers stay for ever.",
        "garbage/sweep.py",
        (("        while dropped < budget and", "        while dropped < 0 and"),),
        ("tests/unit/garbage/test_sweep.py",),
    ),
    Mutant(
        "a snapshot that ended is not looked after",
        "The end of a snapshot makes nothing worth a look: the history keeps what it saw.",
        "garbage/sweep.py",
        (("        if not found or found[-1][1] < upto:\n", "        if found and found[-1][1] < upto:\n"),),
        ("tests/unit/garbage/test_sweep.py",),
    ),
    Mutant(
        "the end of a snapshot keeps its memory",
        "A snapshot that was closed stays in the registry and holds back collection for ever.",
        "transaction/registry.py",
        (
            (
                "        self.details.pop(token, None)\n        self.live.pop(token, None)\n        return",
                "        self.details.pop(token, None)\n        return",
            ),
        ),
        ("tests/unit/transaction/test_registry.py",),
    ),
]
