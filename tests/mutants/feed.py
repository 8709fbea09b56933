"""Faults of the change feed: commits that it leaves out, places that are lost, kinds that are wrong."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "the feed skips a commit at a border",
        "The first commit of each further segment is passed over.",
        "log/cursor.py",
        (
            (
                "                self._open(self.position + 1)\n",
                "                self.position += self._map is not None\n                self._open(self.position + 1)\n",
            ),
        ),
        ("tests/unit/log/test_cursor.py", "tests/unit/feed/test_feed.py"),
    ),
    Mutant(
        "a place is moved before delivery",
        "A consumer's place is stored when it asks for changes: what it had not come to is never shown again.",
        "feed/consumers.py",
        (
            (
                "        return self._consumers.feed.changes(self.position, until, keyspaces, before)\n",
                "        position = self.position\n        self.ack(self._consumers.feed.published())\n        return self._consumers.feed.changes(position, until, keyspaces, before)\n",
            ),
        ),
        ("tests/unit/feed/test_consumers.py",),
    ),
    Mutant(
        "a place goes back",
        "An acknowledgement that comes late sets a consumer back to where it was.",
        "feed/consumers.py",
        (("            if to > row.position or back:\n", "            if to != row.position or back:\n"),),
        ("tests/unit/feed/test_consumers.py",),
    ),
    Mutant(
        "kinds are confused",
        "A key that is inserted again after its deletion is shown as an update.",
        "feed/change.py",
        (('"update" if there else "insert"', '"insert" if there and index < 0 else "update"'),),
        ("tests/unit/feed/test_change.py",),
    ),
    Mutant(
        "what was there before is looked for too early",
        "A commit that is not validated says what was there when it looked, not when it was committed.",
        "transaction/commit.py",
        (
            (
                "            elif request.seen != registry.published:\n                self._tell_again(request, [])\n",
                "",
            ),
        ),
        ("tests/unit/transaction/test_kinds.py",),
    ),
    Mutant(
        "the log is not kept for consumers",
        "Segments that a consumer has not read go with the checkpoint.",
        "feed/retention.py",
        (("            unread = slowest is not None and slowest < segment.last_ts\n", "            unread = False\n"),),
        ("tests/unit/feed/test_retention.py",),
    ),
    Mutant(
        "lost changes are not told of",
        "Who asks for changes that are no longer kept gets those that are, without a word.",
        "feed/feed.py",
        (("        if since + 1 < kept:\n", "        if False:\n"),),
        ("tests/unit/feed/test_feed.py", "tests/unit/feed/test_consumers.py"),
    ),
    Mutant(
        "a wake-up is lost",
        "Who waits for a commit looks for it before it can be woken: a commit in between is slept through.",
        "feed/waiters.py",
        (
            (
                "                if (published := self._published()) > after or",
                "                if (published := self._published()) > after + 1 or",
            ),
        ),
        ("tests/unit/feed/test_waiters.py",),
        hangs=True,
    ),
]
