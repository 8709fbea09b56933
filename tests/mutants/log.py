"""Faults of the log: checksums, syncs, disk errors, backups."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "checksums are not checked",
        "A frame is taken for what it says, whatever the disk made of it.",
        "engine/log/frame.py",
        (("    if crc32(payload, crc32(data[offset + _HEAD.size : body], salt)) != crc:\n", "    if crc < 0:\n"),),
        ("tests/unit/engine/log/test_frame.py::test_a_frame_passes_under_its_own_salt_only",),
    ),
    Mutant(
        "a full commit does not wait for the disk",
        "With full durability a commit is acknowledged when the system has it: a power loss takes it.",
        "engine/log/writer.py",
        (
            (
                "                file.write_durably(position, data)\n                self.durable_ts = ts\n",
                "                file.write(position, data)\n                self.durable_ts = ts\n",
            ),
        ),
        ("tests/unit/engine/log/test_writer.py::test_a_group_costs_one_durable_write",),
    ),
    Mutant(
        "relaxed commits are never synced",
        "What was committed with relaxed durability is said to be synced, and is not: a power loss takes all of it.",
        "engine/log/writer.py",
        (
            (
                "            try:\n                file.sync()\n            except",
                "            try:\n                file.size  # noqa\n            except",
            ),
        ),
        ("tests/unit/engine/log/test_writer.py::test_a_relaxed_append_is_durable_when_it_was_synced",),
    ),
    Mutant(
        "an error of a sync is ignored",
        "A sync that failed is taken for one that succeeded, and commits go on.",
        "engine/log/writer.py",
        (
            (
                (
                    "            except OSError as error:\n"
                    "                self.failure = error\n"
                    "                raise failed(error) from error\n"
                    "            self.durable_ts = max(self.durable_ts, target)\n"
                ),
                (
                    "            except OSError:\n"
                    "                pass\n"
                    "            self.durable_ts = max(self.durable_ts, target)\n"
                ),
            ),
        ),
        ("tests/unit/engine/log/test_writer.py::test_a_sync_that_fails_is_told_and_poisons_the_log",),
    ),
    Mutant(
        "a failed commit stays in the log",
        "What a failed append had written is not erased: the commit comes back after a restart.",
        "engine/log/writer.py",
        (
            (
                "            self._erase(file, position, length, error)\n",
                "",
            ),
        ),
        (
            "tests/unit/engine/log/test_writer.py::test_a_failed_append_leaves_no_trace_and_poisons_the_log[0.5-write_durably]",
        ),
    ),
    Mutant(
        "a failed log goes on",
        "After an error of the disk further commits are accepted, though nobody knows what it holds.",
        "engine/log/writer.py",
        (
            (
                "        if isinstance(error, OSError):\n            self.failure = error\n",
                "        if isinstance(error, OSError):\n",
            ),
        ),
        (
            "tests/unit/engine/log/test_writer.py::test_a_failed_append_leaves_no_trace_and_poisons_the_log[0.0-write_durably]",
        ),
    ),
    Mutant(
        "closing does not sync",
        "Closing gives the files back without bringing relaxed commits to disk, and without a last checkpoint.",
        "store/owned.py",
        (
            (
                "                self.log.mark()  # point: close.checkpoint\n                self.checkpointer.run()\n",
                "                self.log.last_ts  # point: close.checkpoint\n",
            ),
        ),
        ("tests/crash/test_log_damage.py::test_after_a_clean_close_damage_to_a_commit_costs_nothing",),
    ),
    Mutant(
        "a full segment is not synced",
        "The log goes on in a new segment while the last one may not be on disk: a power loss leaves a hole.",
        "engine/log/writer.py",
        (
            (
                "        self.sync()\n        header = Header(",
                "        header = Header(",
            ),
        ),
        ("tests/unit/engine/log/test_writer.py::test_a_new_segment_is_ready_on_disk_before_a_commit_relies_on_it",),
    ),
    Mutant(
        "segments of other stores pass",
        "A segment that belongs to another store is read as this one's.",
        "engine/log/cursor.py",
        (
            (
                "                if header.store_id != self._store_id:\n",
                "                if False:\n",
            ),
        ),
        ("tests/unit/engine/log/test_reader.py::test_a_segment_of_another_store_is_refused",),
    ),
    Mutant(
        "a backup has no tail",
        "A backup leaves out the segment that is being written: the last commits are not in it.",
        "upkeep/backup.py",
        (
            (
                "if each.last_ts > boundary or not each.full]\n",
                "if each.last_ts > boundary and each.full]\n",
            ),
        ),
        ("tests/unit/upkeep/test_backup.py::test_a_backup_opens_as_it_stands_with_every_commit",),
    ),
]
