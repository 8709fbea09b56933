"""Faults of loads: lost changes of other transactions, a load that starves, a wrong difference."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "a load forgets the last changes of others",
        "What others commit between the last round and the swap is not taken over into the new generation.",
        "sharing/loading/bulk.py",
        (
            (
                "            self._beside.row = step(anchor, swap, swap, keys)\n",
                "            pass\n",
            ),
        ),
        ("tests/unit/sharing/loading/test_bulk.py::test_changes_of_others_are_caught_up_with",),
    ),
    Mutant(
        "a load never has its turn",
        "The swap takes no more changes of others with it, however often it has failed: it starves.",
        "sharing/loading/bulk.py",
        (("FEW << max(0, attempt - PATIENCE)", "FEW"),),
        ("tests/unit/sharing/loading/test_bulk.py::test_what_is_few_enough_grows_until_the_load_ends",),
    ),
    Mutant(
        "a conflict ends a load",
        "A job that others beat again and again fails, in place of going on another way.",
        "sharing/loading/loader.py",
        (
            (
                "            except TransientError as error:\n                if job.rows",
                "            except ZeroDivisionError as error:\n                if job.rows",
            ),
        ),
        ("tests/unit/sharing/loading/test_loader.py::test_a_job_ends_beside_a_writer_that_is_always_quicker",),
    ),
    Mutant(
        "the difference is as of the copy",
        "What others change after a document was copied is not in the difference: what is gone is shown as updated.",
        "sharing/loading/beside.py",
        (
            (
                "                found[key] = self._compared(noted, now)\n        self._note(writing, found.items())\n",
                "                found[key] = self._compared(noted, now)\n",
            ),
        ),
        (
            "tests/unit/sharing/loading/test_feed_across_loads.py::test_a_replica_has_equal_documents_from_every_commit_to_every_other",
        ),
    ),
    Mutant(
        "what a load leaves equal is a change",
        "A document that the load replaces by an equal one is shown as updated.",
        "feed/differences.py",
        (("    if before == value:\n        return Difference(value, SAME)\n", ""),),
        (
            "tests/unit/sharing/loading/test_feed_across_loads.py::test_a_load_is_the_same_changes_in_bulk_as_in_one_transaction[logged-upsert]",
        ),
    ),
    Mutant(
        "a difference goes before its commit",
        "What a load did is emptied while the log still has its commit.",
        "documents/management.py",
        (
            (
                "    gone = [each for each in reader.row.former if each.ts < kept]\n",
                "    gone = list(reader.row.former)\n",
            ),
        ),
        (
            "tests/unit/sharing/loading/test_feed_across_loads.py::test_who_watches_while_a_load_comes_sees_it_and_what_comes_after",
        ),
    ),
    Mutant(
        "the first change counts",
        "Of several changes of one document the earliest is applied.",
        "sharing/loading/staged_changes.py",
        (("known.version < change.version", "known.version > change.version"),),
        (
            "tests/unit/sharing/loading/test_staged_changes.py::test_the_last_change_of_each_document_counts_wherever_it_stands",
        ),
    ),
    Mutant(
        "direct rows are of a commit",
        "Rows that a load puts into the base are newer than the pin of a follower, which misses them.",
        "engine/base/direct.py",
        (("_HEAD = encode_ts(0)", "_HEAD = encode_ts(3)"),),
        ("tests/unit/sharing/loading/test_direct.py::test_another_process_sees_the_load_at_its_swap_and_not_before",),
    ),
    Mutant(
        "a backup takes no notice of a load",
        "A second backup copies the log alone, and has the swap of a load without its rows.",
        "sharing/loading/bulk.py",
        (("        note_filled(self._parts.base)\n", ""),),
        ("tests/unit/sharing/loading/test_direct.py::test_a_second_backup_has_what_a_load_put_into_the_base",),
    ),
    Mutant(
        "a backup has half a load",
        "A load that ends while the base is copied is in the log of the backup, and not in its base.",
        "upkeep/backup.py",
        (("                if target.loads_filled() == filled_in(running.base):\n", "                if True:\n"),),
        ("tests/unit/sharing/loading/test_direct.py::test_a_load_while_the_base_is_copied_is_in_the_backup",),
    ),
    Mutant(
        "rows of a load stay behind",
        "Rows that are put after another transaction has emptied their keyspaces are never removed.",
        "sharing/loading/bulk.py",
        (("        elif self._runs is not None:\n", "        elif False:\n"),),
        (
            "tests/unit/sharing/loading/test_direct.py::test_rows_that_are_put_after_their_keyspace_was_emptied_are_emptied_too",
        ),
    ),
    Mutant(
        "a load forgets what is there",
        "The documents of the collection that come before the first staged one are not copied.",
        "sharing/loading/direct.py",
        (
            (
                "        is_new, is_old = new.more(), old.more()\n        while",
                "        is_new, is_old = new.more(), False\n        while",
            ),
        ),
        ("tests/unit/sharing/loading/test_direct.py::test_another_process_sees_the_load_at_its_swap_and_not_before",),
    ),
    Mutant(
        "a block of inserts is overwritten",
        "What others change during a load replaces the row of all documents that share it: they are no longer shown.",
        "sharing/loading/beside.py",
        (("            rows = self._split_blocks(writing, rows) | rows\n", "            pass\n"),),
        (
            "tests/unit/sharing/loading/test_direct.py::test_what_others_change_during_a_load_is_shown_in_its_place_among_what_it_inserts",
        ),
    ),
    Mutant(
        "a keyspace is emptied under its readers",
        "The difference of a load is removed from the base while a snapshot or a pin may read it.",
        "engine/garbage/emptying.py",
        (("    if live and live[0] < since:\n", "    if False:\n"),),
        (
            "tests/unit/sharing/loading/test_direct.py::test_the_difference_is_emptied_in_the_base_unless_a_reader_may_see_it",
        ),
    ),
    Mutant(
        "a keyspace is emptied beside its log",
        "Rows are removed from the base that the log still has, so that the two disagree.",
        "engine/garbage/emptying.py",
        ((" or newest >= first_kept:", ":"),),
        ("tests/unit/sharing/loading/test_direct.py::test_what_the_log_still_writes_to_is_emptied_by_commits",),
    ),
]
