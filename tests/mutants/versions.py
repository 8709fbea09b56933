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
        ("tests/unit/versions/test_visibility.py", "tests/race/test_checkpoint.py"),
    ),
    Mutant(
        "the cache survives a checkpoint",
        "Rows that were cached before a checkpoint hide the newer ones that it brought to the base.",
        "versions/layers.py",
        (
            (
                "        self.view = (self.active, None, {})\n        self.frozen = None\n",
                "        self.view = (self.active, None, self.view[2])\n        self.frozen = None\n",
            ),
        ),
        ("tests/unit/versions/test_layers.py", "tests/unit/versions/test_visibility.py"),
    ),
    Mutant(
        "scans do not show own writes",
        "A scan shows what is committed only, though a point read shows the transaction's own writes.",
        "versions/visibility.py",
        (("    for key in own_keys[first:end]:\n", "    for key in own_keys[end:end]:\n"),),
        ("tests/isolation/test_own_writes.py",),
    ),
    Mutant(
        "a row that is too new hides the old one",
        "Where the base has a newer version, a point read takes the key for absent and does not ask the history.",
        "versions/visibility.py",
        (
            (
                "            return row[1]\n        return self._base.read_history(full_key, ts)\n",
                "            return row[1]\n        return None\n",
            ),
        ),
        ("tests/unit/versions/test_visibility.py",),
    ),
    Mutant(
        "a snapshot sees the next commit",
        "A chain is read one commit too far.",
        "versions/visibility.py",
        (
            (
                "        chain = active.chains.get(full_key)\n        while chain is not None:\n            if chain[0] <= ts:\n",
                "        chain = active.chains.get(full_key)\n        while chain is not None:\n            if chain[0] <= ts + 1:\n",
            ),
        ),
        ("tests/unit/versions/test_visibility.py",),
    ),
    Mutant(
        "an interval begins one commit late",
        "The history does not show a version to the snapshot of the very commit that wrote it.",
        "base/history.py",
        (("        if decode_ts(interval[8:]) > ts:\n", "        if decode_ts(interval[8:]) >= ts:\n"),),
        ("tests/unit/base/test_history.py",),
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
        ("tests/unit/base/test_history.py",),
    ),
    Mutant(
        "a published commit is installed twice",
        "Publishing a commit again after an interrupt puts its versions on their chains a second time.",
        "versions/layers.py",
        (("                if older[0] == ts:\n                    older = older[2]\n", ""),),
        ("tests/unit/versions/test_layers.py",),
    ),
]
