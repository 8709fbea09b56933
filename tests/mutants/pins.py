"""Faults of pins and of readers in other processes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "an expired pin is trusted",
        "A read at a pin whose time is over is answered, though what it saw may have been dropped.",
        "engine/base/leases.py",
        (
            (
                "    if row.expires <= now:\n        raise",
                "    if False:\n        raise",
            ),
        ),
        ("tests/unit/engine/base/test_leases.py::test_it_lives_up_to_its_last_moment_and_not_in_it",),
    ),
    Mutant(
        "a pin of another is taken for one's own",
        "A handle to a pin that was removed works on the pin that took its name.",
        "engine/base/leases.py",
        (
            (
                "row if row is not None and identity in (None, row.id) else None",
                "row",
            ),
        ),
        ("tests/unit/sharing/pins/test_pin.py::test_it_neither_removes_nor_renews_another_pin_that_took_its_name",),
    ),
    Mutant(
        "many keys are read at a pin that has ended",
        "A read of many keys does not look whether the pin still keeps what it saw.",
        "engine/base/pinned.py",
        (
            (
                "            self.check(txn)\n            return self._instant(txn).rows_of(",
                "            return self._instant(txn).rows_of(",
            ),
        ),
        ("tests/unit/engine/base/test_pinned.py::test_every_read_after_the_end_is_refused[removed]",),
    ),
    Mutant(
        "a sweep reads the pins too early",
        "Who is pinned is asked before the transaction that drops versions: a pin taken in between is not counted.",
        "engine/garbage/sweep.py",
        (
            (
                "    def change(txn: Txn) -> Swept:\n",
                "    pins = base.read(base.pins.all)\n\n    def change(txn: Txn) -> Swept:\n",
            ),
            (
                "(row for _, row in base.pins.all(txn))",
                "(row for _, row in pins)",
            ),
        ),
        (
            "tests/unit/engine/garbage/test_sweep.py::test_a_pin_that_comes_while_a_sweep_waits_for_its_transaction_counts",
        ),
    ),
    Mutant(
        "a checkpoint reads the pins too early",
        "Who is pinned is asked before the transaction that overwrites rows: a pin taken in between is not counted.",
        "engine/checkpoint/apply.py",
        (
            (
                "    def change(txn: Txn) -> Applied:\n",
                "    pins = base.read(base.pins.all)\n\n    def change(txn: Txn) -> Applied:\n",
            ),
            (
                "[row for _, row in base.pins.all(txn)]",
                "[row for _, row in pins]",
            ),
        ),
        (
            "tests/unit/engine/checkpoint/test_apply.py::test_a_pin_that_comes_while_it_waits_for_its_transaction_counts",
        ),
    ),
    Mutant(
        "the scope of a pin is ignored",
        "A pin of one keyspace holds back the garbage of all.",
        "engine/garbage/living.py",
        (
            (
                "    everywhere = snapshots.plus(row.ts for row in rows if row.prefixes is None)\n",
                "    everywhere = snapshots.plus(row.ts for row in rows)\n",
            ),
        ),
        ("tests/unit/engine/garbage/test_living.py::test_a_pin_of_one_keyspace_counts_there_only",),
    ),
    Mutant(
        "a pin with a scope holds nothing",
        "What a pin of one keyspace sees there is collected.",
        "engine/garbage/living.py",
        (
            (
                "    return Living(everywhere, scoped)\n",
                "    return Living(everywhere, {})\n",
            ),
        ),
        ("tests/unit/engine/garbage/test_living.py::test_a_pin_of_one_keyspace_counts_there_only",),
    ),
    Mutant(
        "a read at a pin asks the base only",
        "Where the base has a newer version, a reader at a pin takes the key for absent.",
        "engine/base/pinned.py",
        (
            (
                "            value = self._base.history.lookup(txn, full_key, self._ts)\n",
                "            value = None\n",
            ),
        ),
        ("tests/unit/engine/base/test_pinned.py::test_each_key_has_the_row_that_it_had_at_the_pin",),
    ),
    Mutant(
        "a read at a pin does not look at its row",
        "A reader at a pin does not notice that the pin was removed, and reads what is left.",
        "engine/base/pinned.py",
        (
            (
                "            self.check(txn)\n            row = txn.get(",
                "            row = txn.get(",
            ),
        ),
        ("tests/unit/engine/base/test_pinned.py::test_every_read_after_the_end_is_refused[removed]",),
    ),
    Mutant(
        "a follower reads above what is published",
        "A read-only store shows commits that its owner has logged but not published: they may yet fail.",
        "sharing/generation.py",
        (
            (
                "        for commits in self._cursor.read_many(upto):\n",
                "        for commits in _all_there_is(self._cursor, upto):\n",
            ),
            (
                "def _nothing(*_: object) -> None:\n",
                (
                    "def _all_there_is(cursor, upto):\n"
                    "    yield from cursor.read_many(upto)\n"
                    "    while (commit := cursor._next()) is not None:\n"
                    "        cursor.position = commit.ts\n"
                    "        yield [commit]\n"
                    "\n"
                    "\n"
                    "def _nothing(*_: object) -> None:\n"
                ),
            ),
        ),
        ("tests/unit/sharing/test_follower.py::test_a_commit_that_is_logged_but_not_published_is_not_shown",),
    ),
    Mutant(
        "a follower stands still",
        "A read-only store goes on showing the state in which it was opened.",
        "sharing/follower.py",
        (
            (
                "generation.registry.published >= self._page.words[TS] and not",
                "generation.registry.published >= 0 and not",
            ),
        ),
        ("tests/unit/sharing/test_follower.py::test_a_commit_that_is_logged_but_not_published_is_not_shown",),
    ),
]
