"""Faults of opening a store after a crash: what is replayed, what is cut, what is refused."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "the boundary is ignored",
        "Recovery replays what the base already has, from whatever the log still holds.",
        "recovery/opening.py",
        (
            ("sum(frame.ts > boundary for", "sum(frame.ts > 0 for"),
            ("for frame in scan.frames if frame.ts > boundary)", "for frame in scan.frames)"),
        ),
        (
            "tests/crash/test_startup_cases.py::test_clean_although_killed",
            "tests/crash/test_startup_cases.py::test_boundary_ahead_of_log",
        ),
    ),
    Mutant(
        "the last commit is not replayed",
        "Recovery stops one commit early.",
        "recovery/opening.py",
        (("changes_of(commits, horizon)", "changes_of(list(commits)[:-1], horizon)"),),
        ("tests/crash/test_startup_cases.py::test_clean_although_killed",),
    ),
    Mutant(
        "replay goes past a torn frame",
        "Frames are taken whatever stands before them: what follows a hole, and what a recycled segment held before.",
        "log/segment.py",
        (
            (
                "        if frame.previous != crc or frame.ts != expected:\n            return\n",
                "        ts = expected\n",
            ),
        ),
        ("tests/unit/log/test_segment.py::test_a_chain_ends_where_a_frame_was_left_out_repeated_or_moved",),
    ),
    Mutant(
        "a torn tail is taken for damage",
        "A store whose last, unacknowledged commit a power loss tore does not open any more.",
        "recovery/cases.py",
        (
            (
                "    if durable > max(last.last_ts, boundary):\n",
                "    if last.torn or durable > max(last.last_ts, boundary):\n",
            ),
        ),
        ("tests/unit/recovery/test_cases.py::test_a_torn_tail_is_cut",),
    ),
    Mutant(
        "damage is taken for a torn tail",
        "A commit that was known to be on disk is cut off, with all that follow it.",
        "recovery/cases.py",
        (
            (
                "    if durable > max(last.last_ts, boundary):\n",
                "    if False:\n",
            ),
        ),
        ("tests/unit/recovery/test_cases.py::test_a_damaged_middle_is_refused_and_named",),
    ),
    Mutant(
        "a torn rest is not erased",
        "What a cut tail left in the file stays behind the commits that are written next.",
        "recovery/opening.py",
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
        "recovery/opening.py",
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
        "recovery/cases.py",
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
        ("tests/unit/recovery/test_cases.py::test_a_missing_segment_in_between_is_named",),
    ),
    Mutant(
        "the end of a full segment is a tail",
        "Commits that are missing at the end of a segment which another one follows are passed over.",
        "recovery/cases.py",
        (
            (
                "    if following.first_ts != scan.last_ts + 1:\n",
                "    if following.first_ts <= scan.last_ts:\n",
            ),
        ),
        ("tests/unit/recovery/test_cases.py::test_the_end_of_a_full_segment_is_never_a_tail",),
    ),
]
