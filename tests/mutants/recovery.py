"""Faults of opening a store after a crash: what is replayed, what is cut off, what is refused."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TAKEOVER = "tests/crash/test_takeover.py"

MUTANTS = [
    Mutant(
        "the boundary is ignored",
        "Recovery replays what the base already has, from whatever the log still holds.",
        "engine/recovery/replay.py",
        (
            ("sum(frame.ts > boundary for", "sum(frame.ts > 0 for"),
            (
                "frames = [frame for frame in scan.frames if frame.ts > boundary]",
                "frames = scan.frames",
            ),
        ),
        (
            "tests/crash/test_startup_cases.py::test_clean_although_killed",
            "tests/crash/test_startup_cases.py::test_boundary_ahead_of_log",
        ),
    ),
    Mutant(
        "the last commit is not replayed",
        "Recovery stops one commit early.",
        "engine/recovery/replay.py",
        (("changes_of(commits, horizon)", "changes_of(list(commits)[:-1], horizon)"),),
        ("tests/crash/test_startup_cases.py::test_clean_although_killed",),
    ),
    Mutant(
        "replay goes past a torn frame",
        "Frames are taken whatever stands before them: what follows a hole, and what a recycled segment held before.",
        "engine/log/frame.py",
        (
            (
                "if magic != MAGIC or chains_to != previous or stamp != (ts + 1 if length else ts) or end > len(data):",
                "if magic != MAGIC or end > len(data):",
            ),
        ),
        ("tests/unit/engine/log/test_segment.py::test_a_chain_ends_where_a_frame_was_left_out_repeated_or_moved",),
    ),
    Mutant(
        "a torn tail is taken for damage",
        "A store whose last, unacknowledged commit a power loss tore does not open any more.",
        "engine/recovery/cases.py",
        (
            (
                "    if durable > max(last.last_ts, boundary):\n",
                "    if last.torn or durable > max(last.last_ts, boundary):\n",
            ),
        ),
        ("tests/unit/engine/recovery/test_cases.py::test_a_torn_tail_is_cut",),
    ),
    Mutant(
        "damage is taken for a torn tail",
        "A commit that was known to be on disk is cut off, with all that follow it.",
        "engine/recovery/cases.py",
        (
            (
                "    if durable > max(last.last_ts, boundary):\n",
                "    if False:\n",
            ),
        ),
        ("tests/unit/engine/recovery/test_cases.py::test_a_damaged_middle_is_refused_and_named",),
    ),
    Mutant(
        "a torn rest is not erased",
        "What a cut tail left in the file stays behind the commits that are written next.",
        "engine/recovery/opening.py",
        (
            (
                "        file.write(tail.end, bytes(file.size - tail.end))\n",
                "",
            ),
        ),
        ("tests/crash/test_startup_cases.py::test_what_is_left_of_a_torn_tail_is_erased",),
    ),
    Mutant(
        "timestamps are used again",
        "A store whose base is ahead of its log goes on behind the log, with timestamps that the base knows already.",
        "engine/recovery/opening.py",
        (
            (
                "        log.start(boundary, max(map(sequence_of, obsolete), default=0) + 1)\n",
                "        log.start(verdict.last_ts, max(map(sequence_of, obsolete), default=0) + 1)\n",
            ),
            (
                "        last_ts = max(boundary, verdict.last_ts)\n",
                "        last_ts = verdict.last_ts\n",
            ),
        ),
        ("tests/crash/test_startup_cases.py::test_boundary_ahead_of_log",),
    ),
    Mutant(
        "a missing segment is not missed",
        "A log with a gap between two segments opens as if nothing had been there.",
        "engine/recovery/cases.py",
        (
            (
                "    if following.sequence != header.sequence + 1:\n",
                "    if False:\n",
            ),
            (
                "    if following.first_ts != scan.last_ts + 1:\n",
                "    if False:\n",
            ),
        ),
        ("tests/unit/engine/recovery/test_cases.py::test_a_missing_segment_in_between_is_named",),
    ),
    Mutant(
        "the end of a full segment is a tail",
        "Commits that are missing at the end of a segment which another one follows are passed over.",
        "engine/recovery/cases.py",
        (
            (
                "    if following.first_ts != scan.last_ts + 1:\n",
                "    if following.first_ts <= scan.last_ts:\n",
            ),
        ),
        ("tests/unit/engine/recovery/test_cases.py::test_the_end_of_a_full_segment_is_never_a_tail",),
    ),
    Mutant(
        "the pages of a base are not looked at",
        "A store with a damaged page is opened for writing: LMDB ends the process when it meets the page.",
        "engine/base/borrowing.py",
        (("        if owner and not create:\n            _check_sound(base)\n", ""),),
        (("tests/crash/test_damaged_pages.py::test_a_store_with_a_damaged_page_is_refused_and_the_page_is_named"),),
    ),
    Mutant(
        "LMDB verifies its own pages",
        "The examination lets LMDB read pages that nobody has looked at, and dies with it.",
        "upkeep/verify.py",
        (
            (
                "        if pages.found:\n            return VerifyReport(directory, 0, 0, ",
                "        if False:\n            return VerifyReport(directory, 0, 0, ",
            ),
        ),
        ("tests/crash/test_damaged_pages.py::test_files_are_verified_whichever_page_is_damaged",),
    ),
    Mutant(
        "a checkpoint that killed the helper is repeated",
        "The owner makes the very checkpoint of which its helper process died, in a thread of its own.",
        "engine/checkpoint/checkpointer.py",
        (("                if isinstance(error, HelperDied):\n", "                if False:\n"),),
        (
            (
                "tests/crash/test_damaged_pages.py::test_a_checkpoint_whose_helper_died_of_a_signal_"
                "is_repeated_only_if_the_pages_are_sound[True]"
            ),
        ),
    ),
    Mutant(
        "a takeover does not wait for the helper of the killed owner",
        "The helper moves the boundary after the new owner has read it, and no checkpoint succeeds any more.",
        "engine/recovery/replay.py",
        (("        base.write(lambda txn: None)\n", ""),),
        (f"{_TAKEOVER}::test_the_helper_of_the_killed_owner_has_moved_the_boundary_before_it_is_read",),
    ),
    Mutant(
        "a takeover releases the log that only memory has",
        "Commits above the boundary are in no file any more until the next checkpoint.",
        "engine/recovery/opening.py",
        (("held_upto = last_ts if found.pending is None else boundary", "held_upto = last_ts"),),
        (
            f"{_TAKEOVER}::test_the_log_above_the_base_is_kept",
            f"{_TAKEOVER}::test_the_base_is_left_as_it_is_until_the_next_checkpoint[thread]",
        ),
    ),
    Mutant(
        "a takeover forgets the names of new keyspaces",
        "The next checkpoint has no names for keyspaces that were created above the boundary.",
        "engine/versions/layers.py",
        (("        layer.names.update(names)\n", ""),),
        (f"{_TAKEOVER}::test_the_base_is_left_as_it_is_until_the_next_checkpoint[thread]",),
    ),
]
