"""Faults of the commit: validation, the order of its steps, groups, savepoints, registration."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LONE = "tests/schedules/test_lone_statements.py::test_every_schedule_ends_as_a_serial_order"

MUTANTS = [
    Mutant(
        "what was read last stands for any key",
        "A commit logs as the value before the value of another key, which the transaction has read last.",
        "engine/transaction/transaction.py",
        (
            (
                "registration is not None and len(writes) == 1 and self.latest_key in writes:",
                "registration is not None and len(writes) == 1 and self.latest_key is not None:",
            ),
            (
                "if token and len(writes) == 1 and self.latest_key in writes:",
                "if token and len(writes) == 1 and self.latest_key is not None:",
            ),
        ),
        (
            (
                "tests/unit/engine/transaction/test_transaction.py::"
                "test_a_commit_logs_what_was_there_before_whatever_the_transaction_has_read"
                "[_read_another_and_put-expected2-Isolation.SNAPSHOT]"
            ),
        ),
    ),
    Mutant(
        "a statement alone is not compared",
        "Two statements that read the same counter without a snapshot both commit, and one increment is lost.",
        "engine/transaction/commit.py",
        (
            (
                "        clash = self._validator.lone_clash(request, statement, earlier)  # point: commit.alone\n",
                "        clash: Clash | None = None  # point: commit.alone\n",
            ),
        ),
        (f"{_LONE}[a counter-in memory]",),
    ),
    Mutant(
        "a statement that is run again does not see its group",
        "Two workers whose statements are run again in one commit group take the same job.",
        "engine/statements/alone.py",
        (("            self._own.update(each.writes)\n", "            pass\n"),),
        (f"{_LONE}[three workers-in memory]",),
    ),
    Mutant(
        "a statement alone relies on its keys only",
        "A statement that looked for the first job takes the second one, since the first was moved meanwhile.",
        "engine/transaction/validate.py",
        (
            (
                "        if statement.scanned or seen < self._versions.boundary:  # point: validate.boundary\n",
                "        if seen < self._versions.boundary:  # point: validate.boundary\n",
            ),
        ),
        (f"{_LONE}[moved to the front-in memory]",),
    ),
    Mutant(
        "a statement alone does not look at the boundary",
        "A statement overwrites a change that a checkpoint has brought to the base since it was read.",
        "engine/transaction/validate.py",
        (
            (
                "        if statement.scanned or seen < self._versions.boundary:  # point: validate.boundary\n",
                "        if statement.scanned:  # point: validate.boundary\n",
            ),
        ),
        (f"{_LONE}[a counter-beside a checkpoint]",),
    ),
    Mutant(
        "a statement alone ignores the catalog row",
        "A statement that did not know of an index commits after it was created, and its entry is missing.",
        "engine/transaction/validate.py",
        (("        keys = [*writes, *statement.relied_on]\n", "        keys = [*writes]\n"),),
        (f"{_LONE}[a new index-in memory]",),
    ),
    Mutant(
        "last committer wins",
        "Two transactions that wrote the same key both commit, and the first one's write is lost.",
        "engine/transaction/validate.py",
        (
            (
                (
                    "            if chain is not None:\n"
                    "                if chain[0] > since:\n"
                    "                    return key, chain[0]\n"
                ),
                "            if chain is not None:\n",
            ),
        ),
        (
            (
                "tests/isolation/test_write_conflicts.py::"
                "test_the_second_committer_fails_and_the_first_succeeds[chains-update-update-row-Isolation.SNAPSHOT]"
            ),
        ),
    ),
    Mutant(
        "conflicts forgotten at a checkpoint",
        "A key's last change is not known any more once it is in the base, so an older writer overwrites it.",
        "engine/transaction/validate.py",
        (("        below = since < self._versions.boundary", "        below = False"),),
        (
            (
                "tests/isolation/test_late_conflicts.py::"
                "test_a_key_that_was_only_in_the_base_conflicts_although_a_third_one_holds_a_write"
                "[moving-Isolation.SNAPSHOT]"
            ),
        ),
    ),
    Mutant(
        "no conflicts within a group",
        "Members of one commit group are not validated against each other.",
        "engine/transaction/validate.py",
        (
            (
                (
                    "            if not keys.isdisjoint(writes):\n"
                    "                return next(key for key in writes if key in keys), earlier.ts\n"
                ),
                "",
            ),
        ),
        (
            (
                "tests/isolation/test_hot_key.py::"
                "test_losers_on_a_hot_key_never_fail_others_in_their_group[chains-Isolation.SNAPSHOT]"
            ),
        ),
    ),
    Mutant(
        "no phantom check",
        "SERIALIZABLE validates the keys that were read, but not the ranges: a key that was inserted "
        "there goes unnoticed.",
        "engine/transaction/validate.py",
        (
            (
                "            if (key := ranges.find(keys)) is not None:\n                return key, ts\n",
                "",
            ),
        ),
        (
            (
                "tests/isolation/test_anomalies.py::"
                "test_the_anomaly_is_stopped_or_happens_as_the_table_says[chains-write_skew_of_ranges_g2-serializable]"
            ),
        ),
    ),
    Mutant(
        "missing keys are no reads",
        "SERIALIZABLE does not note that a key was looked for and not found: write skew by insertion.",
        "engine/transaction/reads.py",
        (
            (
                (
                    "            if self.reads is not None:\n"
                    "                self.reads.keys.add(full_key)\n"
                    "            value = engine.reader.get(full_key, self.ts)\n"
                ),
                (
                    "            value = engine.reader.get(full_key, self.ts)\n"
                    "            if self.reads is not None and value is not None:\n"
                    "                self.reads.keys.add(full_key)\n"
                ),
            ),
        ),
        (
            (
                "tests/isolation/test_serializable_reads.py::"
                "test_what_was_read_and_then_changed_is_a_conflict[chains-an absent key is inserted]"
            ),
        ),
    ),
    Mutant(
        "a savepoint takes reads back",
        "What was read inside a savepoint that was rolled back no longer counts, though the caller has seen it.",
        "engine/transaction/savepoint.py",
        (
            (
                "        tx.callbacks = self._callbacks\n",
                (
                    "        tx.callbacks = self._callbacks\n"
                    "        if tx.reads is not None:\n"
                    "            tx.reads.keys.clear()\n"
                ),
            ),
        ),
        (
            (
                "tests/isolation/test_serializable_reads.py::"
                "test_reads_inside_a_savepoint_that_was_rolled_back_still_count[moving]"
            ),
        ),
    ),
    Mutant(
        "a savepoint keeps a write",
        "Rolling back a savepoint leaves the first of its writes in the buffer.",
        "engine/transaction/savepoint.py",
        (
            (
                "        while len(undo) > self._mark:\n",
                "        while len(undo) > self._mark + 1:\n",
            ),
        ),
        (
            (
                "tests/isolation/test_savepoints.py::"
                "test_an_error_undoes_what_was_written_inside_and_nothing_else[chains-Isolation.SNAPSHOT]"
            ),
        ),
    ),
    Mutant(
        "visible before it is installed",
        "The timestamp is published before the versions are on their chains: a reader sees a commit that "
        "is not there yet.",
        "engine/transaction/commit.py",
        (
            (
                "            else:\n                grown = versions.publish(ts, writes)  # point: commit.publish\n",
                (
                    "            else:\n"
                    "                registry.published = ts\n"
                    "                grown = versions.publish(ts, writes)  # point: commit.publish\n"
                ),
            ),
            (
                "        grown = versions.publish(ts, writes)  # point: commit.publish\n        if names",
                (
                    "        registry.published = ts\n"
                    "        grown = versions.publish(ts, writes)  # point: commit.publish\n"
                    "        if names"
                ),
            ),
        ),
        (
            (
                "tests/race/test_publication.py::"
                "test_a_commit_is_seen_by_nobody_before_it_is_visible_and_by_everybody_after[False-commit.publish]"
            ),
        ),
    ),
    Mutant(
        "installed before it is logged",
        "Versions are put on their chains before the log has the commit: one that fails leaves a trace.",
        "engine/transaction/commit.py",
        (
            (
                "            log.append(ts, payload, durably)  # point: commit.log\n",
                (
                    "            versions.publish(ts, writes)\n"
                    "            registry.published = ts\n"
                    "            log.append(ts, payload, durably)  # point: commit.log\n"
                ),
            ),
        ),
        (
            (
                "tests/crash/test_io_errors.py::"
                "test_a_commit_that_meets_an_error_is_nowhere_and_the_last_one[write_durably-full-0.0-once]"
            ),
        ),
    ),
    Mutant(
        "a commit at once does not look again under the lock",
        "Another commit comes between the last look at the newest state and the lock, and its update is lost.",
        "engine/transaction/commit.py",
        (("if self.closed is not None or registry.published != seen:", "if self.closed is not None:"),),
        ("tests/unit/engine/statements/test_alone.py::test_what_is_committed_between_its_reads_and_its_commit_counts",),
    ),
    Mutant(
        "a commit at once leaves those that wait",
        "The commit lock is given up after a commit without a request, and no thread that waits for it is woken.",
        "engine/transaction/queue.py",
        (
            (
                (
                    "        finally:\n"
                    "            if self._queue:  # point: commit.pass\n"
                    "                self._pass_on()\n"
                    "        if self.callbacks.due:\n"
                    "            self.callbacks.run()\n"
                    "        return ts\n"
                ),
                "        finally:\n            pass\n        return ts\n",
            ),
        ),
        ("tests/unit/engine/transaction/test_queue.py::test_a_commit_at_once_wakes_one_that_came_meanwhile",),
    ),
    Mutant(
        "a group acknowledges early",
        "The members of a group are told that they are committed before the log has them.",
        "engine/transaction/commit.py",
        (
            (
                "            self._validate(group, accepted)\n            if accepted:\n",
                (
                    "            self._validate(group, accepted)\n"
                    "            for request in accepted:\n"
                    "                request.done = True\n"
                    "                open_gate(request.gate)\n"
                    "            if accepted:\n"
                ),
            ),
        ),
        ("tests/unit/engine/transaction/test_commit.py::test_nobody_in_a_group_is_told_before_the_log_has_it",),
    ),
    Mutant(
        "a group is as durable as its first member",
        "A member that asked for full durability in a group whose first did not is acknowledged before it is on disk.",
        "engine/transaction/commit.py",
        (("durably = any(request.durably for request in accepted)", "durably = accepted[0].durably"),),
        ("tests/unit/engine/transaction/test_commit.py::test_the_group_is_as_durable_as_its_most_careful_member",),
    ),
    Mutant(
        "registration is not atomic",
        "A snapshot is registered without a second look: a collector between draw and registration drops what it sees.",
        "engine/transaction/registry.py",
        (
            (
                "        if self.published != ts:  # point: begin.registered\n",
                "        if False:  # point: begin.registered\n",
            ),
        ),
        (
            (
                "tests/race/test_registration.py::"
                "test_a_collection_between_draw_and_registration_drops_nothing_that_is_needed"
            ),
        ),
    ),
    Mutant(
        "guards ignore the group",
        "What a commit relies on is not compared with earlier members of its group: increments below SNAPSHOT are "
        "acknowledged and lost.",
        "engine/transaction/validate.py",
        (
            (
                (
                    "        for request in earlier:\n"
                    "            for key in request.writes:\n"
                    "                if guards.meet(key):\n"
                    "                    return key, request.ts\n"
                ),
                "",
            ),
        ),
        (
            (
                "tests/isolation/test_groups.py::"
                "test_increments_in_one_group_are_acknowledged_once_for_each_that_is_stored[Isolation.READ_COMMITTED]"
            ),
        ),
    ),
    Mutant(
        "a commit forgets its snapshot too early",
        "The transaction gives up its registration before the commit has it: an interrupt in between leaves it behind.",
        "engine/transaction/transaction.py",
        (
            (
                "        ts = engine.committer.submit(request)\n",
                (
                    "        if registration is not None:\n"
                    "            registration.token = 0\n"
                    "        ts = engine.committer.submit(request)\n"
                ),
            ),
        ),
        (
            (
                "tests/crash/test_interrupted_snapshots.py::"
                "test_an_interrupt_anywhere_leaves_nothing_registered[committed, snapshot]"
            ),
        ),
    ),
    Mutant(
        "a commit at once forgets its snapshot too early",
        "The transaction gives up its registration before the commit has it: an interrupt in between leaves it behind.",
        "engine/transaction/transaction.py",
        (
            (
                "                payload = encode_one(",
                "                registration.token = 0\n                payload = encode_one(",
            ),
            (
                (
                    "            ts = engine.committer.commit_at_once(writes, payload, seen, token, durably)\n"
                    "            if ts:\n"
                    "                if registration"
                ),
                (
                    "            if registration is not None:\n"
                    "                registration.token = 0\n"
                    "            ts = engine.committer.commit_at_once(writes, payload, seen, token, durably)\n"
                    "            if ts:\n"
                    "                if registration"
                ),
            ),
        ),
        (
            (
                "tests/crash/test_interrupted_snapshots.py::"
                "test_an_interrupt_anywhere_leaves_nothing_registered[in a block, snapshot]"
            ),
        ),
    ),
    Mutant(
        "a commit is validated without its snapshot",
        "The leader commits a request whose thread was interrupted and has released its snapshot: what it needs "
        "may have been collected.",
        "engine/transaction/registry.py",
        (
            (
                "        return expired.error() if expired is not None else gone\n",
                "        return expired.error() if expired is not None else None\n",
            ),
        ),
        (
            (
                "tests/crash/test_interrupted_snapshots.py::"
                "test_an_interrupted_follower_leaves_nothing_registered_and_is_not_committed"
            ),
        ),
    ),
    Mutant(
        "live before it is named",
        "A registration is counted by the collector before stats() can name it.",
        "engine/transaction/registry.py",
        (
            (
                (
                    "        self.details[token] = (details, registration.ref)\n"
                    "        ts = self.published\n"
                    "        if tracks_reads:\n"
                    "            self.serializable[token] = ts\n"
                    "        self.live[token] = ts  # point: begin.drawn\n"
                ),
                (
                    "        ts = self.published\n"
                    "        if tracks_reads:\n"
                    "            self.serializable[token] = ts\n"
                    "        self.live[token] = ts  # point: begin.drawn\n"
                    "        self.details[token] = (details, ref(registration))\n"
                ),
            ),
        ),
        ("tests/crash/test_interrupted_snapshots.py::test_whatever_is_live_is_named_at_every_instruction[snapshot]",),
    ),
    Mutant(
        "a registration has two owners",
        "A registration that a traceback refers to is used again: dropping its next owner does not release it.",
        "engine/transaction/transaction.py",
        ((" and getrefcount(registration) == _REFERRED_ONCE:\n", ":\n"),),
        (
            (
                "tests/unit/engine/transaction/test_registry.py::"
                "test_a_registration_that_something_else_refers_to_is_not_used_again"
            ),
        ),
    ),
    Mutant(
        "no commit gives way to a turn",
        "A retry that has its turn is beaten by quicker ones as before, and can fail for ever.",
        "engine/transaction/line.py",
        (("            if holder is None:\n", "            if holder is None or True:\n"),),
        (
            (
                "tests/isolation/test_fair_retries.py::"
                "test_a_retried_commit_of_the_same_key_waits_for_the_end_of_the_turn"
            ),
        ),
    ),
    Mutant(
        "a turn without an end",
        "A holder of a turn that hangs or died holds up all retries of its keys.",
        "engine/transaction/line.py",
        (("        if place.until is None or place.until > now:\n", "        if True:\n"),),
        ("tests/unit/engine/transaction/test_line.py::test_a_holder_that_never_leaves_is_passed_over_after_its_time",),
    ),
    Mutant(
        "a holder of a turn gives way",
        "Two retries that have their turns wait for each other, and a retry inside a retry for itself.",
        "engine/transaction/line.py",
        ((" and not self.has_place() and (now", " and (now"),),
        ("tests/unit/engine/transaction/test_line.py::test_a_thread_that_has_a_place_gives_way_to_no_other",),
    ),
    Mutant(
        "turns out of order",
        "Who takes a place later may have its turn first, so that a caller can be passed by for ever.",
        "engine/transaction/line.py",
        (
            (
                "            self.places = (*self.places, place)\n",
                "            self.places = (place, *self.places)\n",
            ),
        ),
        ("tests/unit/engine/transaction/test_line.py::test_turns_come_in_the_order_of_the_places",),
    ),
]
