"""Faults of the protocol that joined processes commit with."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_JOINED = "tests/processes/test_joined.py"
_OWNER = "tests/processes/test_owner.py"
_INBOX = "tests/unit/sharing/test_inbox.py"
_FOLLOWER = "tests/unit/sharing/test_follower.py"
_PLACE = "tests/unit/engine/base/test_place.py"
_GROWTH = "tests/unit/engine/base/test_map_growth.py::"

MUTANTS = [
    Mutant(
        "the identity of a commit is ignored",
        "A commit that was sent again after a takeover is committed again, though the log has it.",
        "sharing/joined_commits.py",
        (
            (
                "if message.unanswered is not None and (found",
                "if False and message.unanswered is not None and (found",
            ),
        ),
        (f"{_OWNER}::test_a_commit_whose_owner_is_killed_is_there_once[after-alone]",),
    ),
    Mutant(
        "a commit is acknowledged before other processes can see it",
        "A process is told of a commit, and a read that begins after that in another process does not see it.",
        "engine/transaction/commit.py",
        (
            (
                "        self._show(registry.published)  # to other processes, before any member is told\n",
                "",
            ),
        ),
        (f"{_JOINED}::test_a_commit_is_shown_to_other_processes_before_it_is_acknowledged",),
    ),
    Mutant(
        "a joined commit is answered before it is synced",
        "The owner acknowledges what the disk does not have yet.",
        "sharing/commit_message.py",
        (
            (
                "        durably=message.durably,\n        names",
                "        durably=False,\n        names",
            ),
        ),
        (f"{_JOINED}::test_a_commit_is_as_durable_as_its_process_asked_for",),
    ),
    Mutant(
        "the horizon of joined processes is dropped",
        "A collection drops the traces of deletions that a joined transaction still conflicts with.",
        "engine/garbage/sweep.py",
        (
            (
                "        upto = oldest_writer_among(leases, oldest_writer) or 0\n",
                "        upto = oldest_writer\n",
            ),
        ),
        (f"{_JOINED}::test_a_deletion_leaves_a_trace_until_the_transaction_has_ended[snapshot]",),
    ),
    Mutant(
        "a checkpoint leaves no traces for joined processes",
        "A checkpoint writes no tombstone for a deletion that a joined transaction conflicts with.",
        "engine/checkpoint/apply.py",
        (
            (
                "oldest_writer_among(rows, oldest_writer)",
                "oldest_writer",
            ),
        ),
        (f"{_JOINED}::test_a_deletion_leaves_a_trace_until_the_transaction_has_ended[snapshot]",),
    ),
    Mutant(
        "a lease that is gone is trusted",
        "A transaction commits though the traces of what it conflicts with may have been dropped.",
        "sharing/joined_commits.py",
        (
            (
                "if leased is not None and leased <= oldest:",
                "if True:",
            ),
        ),
        (f"{_JOINED}::test_a_transaction_that_outlived_its_lease_is_refused",),
    ),
    Mutant(
        "joined reads are validated against what is remembered for others",
        "Commits are remembered for the owner's own transactions only, so a joined one misses them.",
        "engine/transaction/validate.py",
        (
            (
                "if joined or since < self.recent.complete_after:",
                "if since < self.recent.complete_after:",
            ),
        ),
        (f"{_JOINED}::test_what_a_serializable_transaction_read_is_validated[key-in memory]",),
    ),
    Mutant(
        "the log of unanswered commits is released",
        "What tells the fate of a commit is gone when its process asks for it.",
        "engine/recovery/opening.py",
        (
            (
                "return min(floor, unanswered_since(path))",
                "return floor",
            ),
        ),
        (f"{_OWNER}::test_the_log_is_kept_for_a_commit_that_is_not_answered",),
    ),
    Mutant(
        "what an interrupted thread left in the queue is not decided",
        "A commit is sent again and committed, and then the leader commits the first one as well.",
        "sharing/joined_commits.py",
        (
            (
                "                self._committer.settle(left)\n",
                "                pass\n",
            ),
        ),
        (f"{_INBOX}::test_a_thread_that_is_interrupted_while_another_one_leads_leaves_the_outcome_to_it",),
    ),
    Mutant(
        "only the last of several requests has a gate",
        "The commit lock is given up, and the thread that brought the first of the queue is not woken.",
        "engine/transaction/queue.py",
        (
            (
                "                for each in before:\n                    each.gate = gate\n",
                "",
            ),
        ),
        (f"{_INBOX}::test_requests_that_one_thread_brings_have_one_gate",),
    ),
    Mutant(
        "what was followed before the boundary is taken over",
        "A takeover puts versions onto chains that the base has already.",
        "engine/recovery/replay.py",
        (
            (
                "        if chain[0] > boundary\n",
                "",
            ),
        ),
        ("tests/crash/test_followed_takeover.py::test_it_finds_the_same_and_reads_only_the_rest[True-1]",),
    ),
    Mutant(
        "what an interrupted read of the log has lost is not read again",
        "A process is interrupted while it follows the log, and never sees a commit that it had read by then.",
        "sharing/generation.py",
        (
            (
                "            self._rewind()\n",
                "            pass\n",
            ),
        ),
        (f"{_FOLLOWER}::test_a_read_that_is_interrupted_while_it_follows_the_log_loses_no_commit[publish-1]",),
    ),
    Mutant(
        "a spin that found nothing is repeated for each commit",
        "Processes that share too few cores take them from the owner that they wait for.",
        "sharing/spin.py",
        (
            (
                "        self._skipping = min(2 * self._skipping + 1, _MOST_SKIPPED)\n",
                "",
            ),
        ),
        ("tests/unit/sharing/test_spin.py::test_after_one_that_comes_late_more_and_more_of_the_next_are_slept_for",),
    ),
    Mutant(
        "a process writes to a base that was compacted",
        "The owner has exchanged the base. A pin that another process takes is in the old one, and lost.",
        "engine/base/lmdb_file.py",
        (
            (
                "            if self._was_exchanged():\n                txn.commit()",
                "            if False:\n                txn.commit()",
            ),
        ),
        (f"{_PLACE}::test_a_write_goes_to_the_base_that_has_the_name[False]",),
    ),
    Mutant(
        "a process reads on in a base that was compacted",
        "Pins that other processes have taken or removed since are not seen, for as long as it does not write.",
        "engine/base/lmdb_file.py",
        (
            (
                "        if self.moved[0]:\n",
                "        if False:\n",
            ),
        ),
        (f"{_PLACE}::test_a_read_follows_the_mark_and_sees_what_was_written_since",),
    ),
    Mutant(
        "the lock file of one base is opened with the data of another",
        "A process opens the base while it is exchanged. Its writer lock keeps nobody out.",
        "engine/base/place.py",
        (
            (
                "                if held.has_its_name():\n                    return result\n",
                "                return result\n",
            ),
        ),
        (f"{_PLACE}::test_the_files_of_two_directories_are_never_opened_together",),
    ),
    Mutant(
        "commits that are published again are put above later ones",
        "A process was interrupted while it followed the log. A snapshot that begins later sees an older version.",
        "engine/versions/layers.py",
        (
            (
                "                    while older is not None and older[0] >= ts:  # it is repeated\n",
                "                    if older[0] == ts:\n",
            ),
        ),
        ("tests/unit/engine/versions/test_layers.py::test_publishing_again_from_an_earlier_commit_on_changes_nothing",),
    ),
    Mutant(
        "a repeated read adopts a map while it keeps writers out",
        "A read waits for a writer that waits for it, if another process has grown the map twice.",
        "engine/base/lmdb_file.py",
        (("if self._repeating == threading.get_ident():", "if self._repeating == -1:"),),
        (_GROWTH + "test_a_repeated_read_that_meets_a_grown_map_again_does_not_block_a_writer",),
    ),
]
