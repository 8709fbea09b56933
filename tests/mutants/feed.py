"""Faults of the change feed: commits that are left out, positions that are lost, kinds that are wrong."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "the feed skips a commit at a border",
        "The first commit of each further segment is passed over.",
        "engine/log/cursor.py",
        (
            (
                (
                    "                self._open(self.position + 1)\n"
                    "            elif commit.ts > self.position:\n"
                    "                self.position = commit.ts\n"
                    "                yield commit\n"
                ),
                (
                    "                self.position += self._map is not None\n"
                    "                self._open(self.position + 1)\n"
                    "            elif commit.ts > self.position:\n"
                    "                self.position = commit.ts\n"
                    "                yield commit\n"
                ),
            ),
        ),
        (
            "tests/unit/engine/log/test_cursor.py::test_a_cursor_begins_anywhere_and_goes_over_from_segment_to_segment[57]",
        ),
    ),
    Mutant(
        "a place is moved before delivery",
        "A consumer's place is stored when it asks for changes: what it had not come to is never shown again.",
        "feed/consumers.py",
        (
            (
                "        return self._consumers.feed.changes(self.position, until, keyspaces, before)\n",
                (
                    "        position = self.position\n"
                    "        self.ack(self._consumers.feed.published())\n"
                    "        return self._consumers.feed.changes(position, until, keyspaces, before)\n"
                ),
            ),
        ),
        ("tests/unit/feed/test_consumers.py::test_what_is_acknowledged_is_not_shown_again",),
    ),
    Mutant(
        "a place goes back",
        "An acknowledgement that comes late sets a consumer back to where it was.",
        "engine/base/positions.py",
        (
            (
                "            if row.position > current.position or back:\n",
                "            if row.position != current.position or back:\n",
            ),
        ),
        ("tests/unit/feed/test_consumers.py::test_an_ack_never_goes_back",),
    ),
    Mutant(
        "kinds are confused",
        "A key that is inserted again after its deletion is shown as an update.",
        "feed/change.py",
        (
            (
                '"update" if there else "insert"',
                '"insert" if there and index < 0 else "update"',
            ),
        ),
        ("tests/unit/feed/test_change.py::test_the_kinds_follow_from_what_was_there",),
    ),
    Mutant(
        "what was there before is looked for too early",
        "A commit that is not validated says what was there when it looked, not when it was committed.",
        "engine/transaction/commit.py",
        (
            (
                (
                    "        elif not request.untold and (earlier or request.seen != self._registry.published):\n"
                    "            self._tell_again(request, earlier)\n"
                ),
                "",
            ),
        ),
        (
            (
                "tests/unit/engine/transaction/test_kinds.py::"
                "test_a_commit_between_the_look_and_the_lock_is_seen[put-False-False-autocommit]"
            ),
        ),
    ),
    Mutant(
        "the log is not kept for consumers",
        "Segments that a consumer has not read go with the checkpoint.",
        "engine/log/retention.py",
        (
            (
                "            unread = slowest is not None and slowest < segment.last_ts\n",
                "            unread = False\n",
            ),
        ),
        ("tests/unit/engine/log/test_retention.py::test_a_consumer_keeps_what_it_has_not_acknowledged_and_no_more",),
    ),
    Mutant(
        "lost changes are not told of",
        "Who asks for changes that are no longer kept gets those that are, without a word.",
        "feed/feed.py",
        (
            (
                "        if since + 1 < kept:\n",
                "        if False:\n",
            ),
        ),
        ("tests/unit/feed/test_feed.py::test_a_place_before_what_is_kept_is_refused_with_the_right_numbers",),
    ),
]
