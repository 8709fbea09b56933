"""Faults of the commit: validation, the order of its steps, groups, savepoints, registration."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "last committer wins",
        "Two transactions that wrote the same key both commit, and the first one's write is lost.",
        "transaction/validate.py",
        (
            (
                "            if chain is not None:\n                if chain[0] > since:\n                    return key, chain[0]\n",
                "            if chain is not None:\n",
            ),
        ),
        ("tests/isolation/test_write_conflicts.py",),
    ),
    Mutant(
        "conflicts forgotten at a checkpoint",
        "A key's last change is not known any more once it is in the base, so an older writer overwrites it.",
        "transaction/validate.py",
        (("        below = since < self._versions.boundary\n", "        below = False\n"),),
        ("tests/isolation/test_late_conflicts.py",),
    ),
    Mutant(
        "no conflicts within a group",
        "Members of one commit group are not validated against each other.",
        "transaction/commit.py",
        (
            (
                "            if not keys.isdisjoint(writes):\n                return next(key for key in writes if key in keys), earlier.ts\n",
                "",
            ),
        ),
        ("tests/isolation/test_hot_key.py",),
    ),
    Mutant(
        "no phantom check",
        "SERIALIZABLE validates the keys that were read, but not the ranges: a key that was inserted there goes unnoticed.",
        "transaction/validate.py",
        (("            if (key := ranges.find(keys)) is not None:\n                return key, ts\n", ""),),
        ("tests/isolation/test_anomalies.py", "tests/isolation/test_serializable_reads.py"),
    ),
    Mutant(
        "missing keys are no reads",
        "SERIALIZABLE does not note that a key was looked for and not found: write skew by insertion.",
        "transaction/transaction.py",
        (
            (
                "            if self._reads is not None:\n                self._reads.keys.add(full_key)\n            value = engine.reader.get(full_key, self.ts)\n",
                "            value = engine.reader.get(full_key, self.ts)\n            if self._reads is not None and value is not None:\n                self._reads.keys.add(full_key)\n",
            ),
        ),
        ("tests/isolation/test_serializable_reads.py",),
    ),
    Mutant(
        "a savepoint takes reads back",
        "What was read inside a savepoint that was rolled back no longer counts, though the caller has seen it.",
        "transaction/savepoint.py",
        (
            (
                "        tx._callbacks = self._callbacks\n",
                "        tx._callbacks = self._callbacks\n        if tx._reads is not None:\n            tx._reads.keys.clear()\n",
            ),
        ),
        ("tests/isolation/test_serializable_reads.py",),
    ),
    Mutant(
        "a savepoint keeps a write",
        "Rolling back a savepoint leaves the first of its writes in the buffer.",
        "transaction/savepoint.py",
        (("        while len(undo) > self._mark:\n", "        while len(undo) > self._mark + 1:\n"),),
        ("tests/isolation/test_savepoints.py", "tests/unit/transaction/test_savepoint.py"),
    ),
    Mutant(
        "visible before it is installed",
        "The timestamp is published before the versions are on their chains: a reader sees a commit that is not there yet.",
        "transaction/commit.py",
        (
            (
                "            grown = versions.publish(ts, request.writes)  # point: commit.publish\n",
                "            registry.published = ts\n            grown = versions.publish(ts, request.writes)  # point: commit.publish\n",
            ),
        ),
        ("tests/race/test_publication.py",),
    ),
    Mutant(
        "installed before it is logged",
        "Versions are put on their chains before the log has the commit: one that fails leaves a trace.",
        "transaction/commit.py",
        (
            (
                "            log.append(ts, request.payload, request.durably)  # point: commit.log\n            grown = versions.publish(ts, request.writes)  # point: commit.publish\n",
                "            grown = versions.publish(ts, request.writes)  # point: commit.publish\n            registry.published = ts\n            log.append(ts, request.payload, request.durably)  # point: commit.log\n",
            ),
        ),
        ("tests/crash/test_io_errors.py", "tests/unit/transaction/test_commit.py"),
    ),
    Mutant(
        "a group acknowledges early",
        "The members of a group are told that they are committed before the log has them.",
        "transaction/commit.py",
        (
            (
                "            self._validate(group, accepted)\n            if len(accepted) == 1:\n",
                "            self._validate(group, accepted)\n            for request in accepted:\n                request.done = True\n                _open(request.gate)\n            if len(accepted) == 1:\n",
            ),
        ),
        ("tests/unit/transaction/test_commit.py",),
    ),
    Mutant(
        "a group is as durable as its first member",
        "A member that asked for full durability in a group whose first did not is acknowledged before it is on disk.",
        "transaction/commit.py",
        (
            (
                "                durably = any(request.durably for request in accepted)\n",
                "                durably = accepted[0].durably\n",
            ),
        ),
        ("tests/unit/transaction/test_commit.py",),
    ),
    Mutant(
        "registration is not atomic",
        "A snapshot is registered without a second look: a collector between draw and registration drops what it sees.",
        "transaction/registry.py",
        (("            if self.published == ts:\n                break\n", "            break\n"),),
        ("tests/unit/transaction/test_registry.py", "tests/race/test_registration.py"),
    ),
]
