"""Faults of quads: merging, the dictionary of terms, the indexes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TERMS = "tests/quads/test_terms.py::"
_RECORDED = "tests/quads/test_recorded.py::"
_LOADING = "tests/unit/quads/test_loading.py::"
_SERIALIZABLE = "tests/unit/quads/sparql/test_serializable.py::"

MUTANTS = [
    Mutant(
        "puts merge whatever their values",
        "Of two terms that collide, the second to commit overwrites the first, and takes its statements.",
        "engine/transaction/validate.py",
        (("newest is not None and newest == writes[key] and", "newest is not None and"),),
        (_TERMS + "test_two_terms_that_collide_in_two_transactions_conflict_and_are_retried",),
    ),
    Mutant(
        "puts merge with deletions",
        "An add that was acknowledged is lost to a concurrent removal.",
        "engine/transaction/validate.py",
        (("newest is not None and newest == writes[key] and", "newest in (None, writes[key]) and"),),
        (_TERMS + "test_an_add_and_a_removal_conflict[remove]",),
    ),
    Mutant(
        "merged puts are told as inserts",
        "The change feed has two inserts of one statement.",
        "engine/transaction/commit.py",
        (("            elif request.merged:\n", "            elif False:\n"),),
        (_TERMS + "test_an_add_that_changed_nothing_is_no_insert",),
    ),
    Mutant(
        "an add does not rely on the epoch",
        "A term that was collected after a transaction has found it is missing under a statement.",
        "quads/changing.py",
        (("[*self._relied_on, prefixes.epoch] if self._adds else", "self._relied_on if self._adds else"),),
        (_TERMS + "test_a_term_that_was_found_cannot_vanish_before_the_commit[snapshot]",),
    ),
    Mutant(
        "a collection does not rely on the statements",
        "A term is removed under a statement that was added meanwhile.",
        "quads/collecting.py",
        (("            writing.rely_on(each)\n", "            pass\n"),),
        (_TERMS + "test_a_term_that_is_used_again_is_not_collected",),
    ),
    Mutant(
        "an index is not written",
        "Patterns with a given object miss statements.",
        "quads/changing.py",
        (
            (
                "dict.fromkeys(chain.from_iterable(keys), value)",
                "dict.fromkeys(chain.from_iterable(keys[:2] + keys[3:]), value)",
            ),
        ),
        ("tests/unit/quads/test_quads.py::test_every_pattern_finds_what_matches",),
    ),
    Mutant(
        "reads of the dictionary are tracked",
        "A blind add at SERIALIZABLE conflicts with one that only has a term in common.",
        "engine/transaction/reads.py",
        (
            (
                "        values = self.engine.reader.get_many(full_keys, self.ts)\n",
                (
                    "        if self.reads is not None:\n"
                    "            self.reads.keys.update(full_keys)\n"
                    "        values = self.engine.reader.get_many(full_keys, self.ts)\n"
                ),
            ),
        ),
        (_TERMS + "test_reads_of_the_dictionary_are_no_reads_of_the_transaction",),
    ),
    Mutant(
        "an unknown term is no read",
        "A serializable transaction misses a statement with a term that it looked for and did not find.",
        "quads/dictionary.py",
        (("                self._reading.read_many(absent)\n", "                pass\n"),),
        (_TERMS + "test_a_term_that_was_not_found_is_a_read",),
    ),
    Mutant(
        "own terms are remembered before the commit",
        "After a rollback, a term that collides is taken for the one that was rolled back.",
        "quads/dictionary.py",
        ((" if not pending or prefix + id not in pending", ""),),
        (_TERMS + "test_a_rolled_back_term_is_not_remembered_for_one_that_collides",),
    ),
    Mutant(
        "own terms that were looked up are remembered before the commit",
        "After a rollback, a term that collides is taken for the one that was rolled back.",
        "quads/dictionary.py",
        (("                    if prefix + id not in pending:\n", "                    if True:\n"),),
        (_TERMS + "test_a_rolled_back_term_that_was_looked_up_is_not_remembered_for_one_that_collides",),
    ),
    Mutant(
        "merged puts are recorded as writes",
        "A store that is right is convicted of lost updates by its own recording.",
        "engine/transaction/recording.py",
        (("        entry[6] = request.merged\n", "        entry[6] = None\n"),),
        (_RECORDED + "test_equal_adds_of_what_both_found_missing_are_no_lost_update",),
    ),
    Mutant(
        "merged writes are missed by nobody",
        "Two serializable transactions that both found nothing and added the same are acquitted.",
        "audit/graph.py",
        (("if same else (write, *merged)\n", "if same else (write,)\n"),),
        (_RECORDED + "test_equal_adds_are_convicted_where_reads_are_not_validated",),
    ),
    Mutant(
        "a serializable query uses what others have read",
        "Its read set misses the patterns whose statements were kept for other queries.",
        "quads/sparql/extents.py",
        (("    if reader.tracked or not reader.committed:\n", "    if not reader.committed:\n"),),
        (_SERIALIZABLE + "test_what_others_have_read_is_read_again",),
    ),
    Mutant(
        "a query uses what was read at another commit",
        "A query shows statements that were removed before its snapshot.",
        "quads/sparql/extents.py",
        (
            ("    if found is None or found.ts < reader.ts:\n", "    if found is None:\n"),
            ("    return found if found.ts == reader.ts else Extents(reader.ts)\n", "    return found\n"),
        ),
        ("tests/unit/quads/sparql/test_extents.py::test_an_extent_is_kept_for_the_same_commit_alone",),
    ),
    Mutant(
        "a statement that is fully given is looked up without being read",
        "Two serializable transactions each find that the other one's statement is not there, and both add.",
        "quads/reading.py",
        (
            (
                "in self._reading.read_many([prefix + quad for quad in quads])]",
                "in self._reading.peek([prefix + quad for quad in quads])]",
            ),
        ),
        ("tests/quads/test_isolation.py::test_statements_that_are_fully_given_are_read",),
    ),
    Mutant(
        "the removal of a statement that is not there writes nothing",
        "A concurrent add of it and the removal both succeed, and the statement stays.",
        "quads/quads.py",
        (
            (
                "    return change.remove([quad], [value])\n",
                "    return 0 if value is None else change.remove([quad], [value])\n",
            ),
        ),
        ("tests/quads/test_isolation.py::test_a_removal_of_what_is_not_there_conflicts_with_its_add",),
    ),
    Mutant(
        "a load relies on the terms of an epoch that has ended",
        "A term that was collected during a load is missing under later statements of it.",
        "quads/changing.py",
        (("        if batch.epoch not in ([], [epoch]):\n", "        if False:\n"),),
        (_LOADING + "test_terms_that_are_collected_between_two_batches_come_again",),
    ),
    Mutant(
        "a load takes the id of another term",
        "A term of a file that collides with a stored one takes its statements.",
        "quads/changing.py",
        (("        if any(row is not None and row != wanted for", "        if any(row is not None and False for"),),
        (_LOADING + "test_a_load_of_a_term_that_collides_with_one_that_is_stored",),
    ),
]
