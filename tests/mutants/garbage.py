"""Faults of the collector: versions that are dropped too early, and versions that are never dropped."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "a count of the history is kept for a later state",
        "stats() goes on to show what was held before a checkpoint that came while the history was read.",
        "engine/garbage/account.py",
        (
            (
                "_History(state, holding, counts)",
                "_History(base.state(), holding, counts)",
            ),
        ),
        (("tests/unit/engine/garbage/test_account.py::test_a_history_that_changes_while_it_is_read_is_read_again"),),
    ),
    Mutant(
        "pruning without the time bound",
        "A version goes although it ended after the live snapshots were read: one that began meanwhile loses it.",
        "engine/garbage/horizon.py",
        (
            (
                "        if end > self.bound:\n            return True\n",
                "",
            ),
        ),
        (
            (
                "tests/unit/engine/garbage/test_horizon.py::"
                "test_what_ended_after_the_bound_is_kept_for_readers_that_nobody_knows_yet"
            ),
        ),
    ),
    Mutant(
        "the edge of an interval is garbage",
        "The snapshot of the very commit that wrote a version does not keep it.",
        "engine/garbage/horizon.py",
        (
            (
                "        index = bisect_left(self.live, begin)\n",
                "        index = bisect_left(self.live, begin + 1)\n",
            ),
        ),
        ("tests/unit/engine/garbage/test_horizon.py::test_the_edges_of_the_interval_are_exact",),
    ),
    Mutant(
        "the head is pruned early",
        "The newest version of a chain goes while an older one stays for a snapshot: everybody reads the old one.",
        "engine/garbage/prune.py",
        (
            (
                "    return (chain[0], chain[1], rest)\n",
                "    return rest if rest is not None else (chain[0], chain[1], rest)\n",
            ),
        ),
        (
            (
                "tests/unit/engine/garbage/test_prune.py::"
                "test_of_each_interval_a_version_is_left_iff_a_snapshot_lies_in_it[live2-left2]"
            ),
        ),
    ),
    Mutant(
        "a tombstone goes before the base knows",
        "A deletion is dropped from memory while an older version lies in the base: the key comes back.",
        "engine/versions/layers.py",
        (
            (
                "            chains[key] = (ts, value, None)\n            while older",
                (
                    "            if value is None:\n"
                    "                del chains[key]\n"
                    "            else:\n"
                    "                chains[key] = (ts, value, None)\n"
                    "            while older"
                ),
            ),
            (
                "        chains[key] = (ts, value, None)\n        layer.versions = versions\n",
                (
                    "        if value is None:\n"
                    "            del chains[key]\n"
                    "        else:\n"
                    "            chains[key] = (ts, value, None)\n"
                    "        layer.versions = versions\n"
                ),
            ),
        ),
        ("tests/garbage/test_table.py::test_a_tombstone_of_a_key_that_was_written_since_stays_too_without_any_reader",),
    ),
    Mutant(
        "deletions leave no tombstone",
        "A checkpoint removes a deleted key's row although an older writer lives: it does not notice the deletion.",
        "engine/checkpoint/plan.py",
        (
            (
                "    if oldest_writer is not None and oldest_writer < ts:\n",
                "    if False:\n",
            ),
        ),
        (
            (
                "tests/unit/engine/checkpoint/test_plan.py::"
                "test_a_deletion_leaves_a_tombstone_for_an_older_writer_to_conflict_with"
            ),
        ),
    ),
    Mutant(
        "tombstones never go",
        "The rows that deletions leave for older writers stay for ever.",
        "engine/garbage/sweep.py",
        (
            (
                "        while dropped < budget and",
                "        while dropped < 0 and",
            ),
        ),
        ("tests/unit/engine/garbage/test_sweep.py::test_tombstones_go_once_no_writer_is_older_than_they_are",),
    ),
    Mutant(
        "a snapshot that ended is not looked after",
        "The end of a snapshot makes nothing worth a look: the history keeps what it saw.",
        "engine/garbage/sweep.py",
        (
            (
                "        if not found or found[-1][1] < upto:\n",
                "        if found and found[-1][1] < upto:\n",
            ),
        ),
        (
            (
                "tests/unit/engine/garbage/test_sweep.py::"
                "test_the_end_of_a_snapshot_makes_what_ended_up_to_the_next_one_worth_walking"
            ),
        ),
    ),
    Mutant(
        "the end of a snapshot keeps its memory",
        "A snapshot that was closed stays in the registry and holds back collection for ever.",
        "engine/transaction/registry.py",
        (
            (
                'destructor."""\n        self.live.pop(token, None)  # point: release.live\n',
                'destructor."""\n',
            ),
        ),
        (
            "tests/unit/engine/transaction/test_registry.py::test_releasing_is_harmless_when_repeated_or_unknown",
            "tests/garbage/test_nothing_stays.py::test_a_dropped_snapshot_and_one_of_a_dead_thread_hold_nothing",
        ),
    ),
    Mutant(
        "a sweep forgets the other stretches",
        "A sweep whose budget ends goes on with its stretch later, but never comes to those that were to follow.",
        "engine/garbage/sweep.py",
        (("[(interval.row_key, upto), *wanted[index + 1 :]]", "[(interval.row_key, upto)]"),),
        (
            (
                "tests/unit/engine/garbage/test_sweep.py::"
                "test_a_sweep_whose_budget_ends_leaves_the_rest_of_its_stretch_and_all_the_others"
            ),
        ),
    ),
    Mutant(
        "the history waits for the oldest",
        "What a short snapshot kept beside an old one stays until the old one ends, or very many have.",
        "engine/garbage/collector.py",
        (("            elif ts in self._last_seers:\n", "            elif False:\n"),),
        (
            "tests/unit/engine/garbage/test_collector.py::test_reports_beside_an_old_reader_leave_at_most_twice_what_is_seen",
            "tests/garbage/test_reports_beside_an_old_reader.py::test_the_history_stays_within_twice_what_is_seen[thread]",
        ),
    ),
    Mutant(
        "garbage is not counted",
        "Versions that have lost their last seer are neither seen nor garbage.",
        "engine/garbage/ledger.py",
        (("                self.unseen += count\n", ""),),
        ("tests/unit/engine/garbage/test_ledger.py::test_it_counts_what_is_seen_and_what_is_garbage_exactly",),
    ),
    Mutant(
        "a sweep drops what nobody has counted",
        "A sweep takes versions of a checkpoint that the ledger will count afterwards, as if they were there.",
        "engine/garbage/sweep.py",
        (
            (
                "        counted = ledger.upto if ledger is not None and not ledger.counting else _FOREVER\n",
                "        counted = _FOREVER\n",
            ),
        ),
        ("tests/unit/engine/garbage/test_sweep.py::test_a_sweep_with_a_ledger_drops_only_what_that_has_counted",),
    ),
]
