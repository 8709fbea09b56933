"""Faults of Spark's reads and writes: shared pins, tables, stored types and counts."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "a shared pin goes with its first user",
        "A load that is released takes the snapshot of the others with it.",
        "engine/base/leases.py",
        (("                if others or not row.shared:\n", "                if not row.shared:\n"),),
        (
            "tests/unit/sharing/pins/test_sharing.py::test_it_goes_with_the_last_user_and_is_noted_for_the_owner",
            "tests/unit/spark/test_load_pin.py::test_loads_of_one_commit_and_one_driver_share_a_pin_that_goes_with_the_last",
        ),
    ),
    Mutant(
        "a joined pin holds what it held",
        "A load joins the pin of another collection, and what it reads is collected under it.",
        "engine/base/leases.py",
        (
            ("keyspaces=_united(row.keyspaces, place.keyspaces),", "keyspaces=row.keyspaces,"),
            ("prefixes=_united(row.prefixes, place.prefixes),", "prefixes=row.prefixes,"),
        ),
        ("tests/unit/spark/test_load_pin.py::test_what_a_shared_pin_came_to_hold_is_read_there",),
    ),
    Mutant(
        "drivers share a pin",
        "A load joins the pin of another application, and loses its snapshot when that ends.",
        "engine/base/leases.py",
        (("row.ts == place.ts and row.process == process and", "row.ts == place.ts and"),),
        (
            "tests/unit/sharing/pins/test_sharing.py::test_another_commit_another_process_a_dead_pin_and_a_users_own_are_not_shared",
            "tests/unit/spark/test_load_pin.py::test_another_commit_or_another_driver_has_a_pin_of_its_own",
        ),
    ),
    Mutant(
        "the pin of a block is not left to its loads",
        "What was loaded inside a pinned block has no snapshot when the block has ended.",
        "engine/base/leases.py",
        (("            if row.users:\n                left", "            if False:\n                left"),),
        ("tests/unit/spark/test_load_pin.py::test_loads_in_a_block_have_a_part_in_its_pin_which_is_left_to_them",),
    ),
    Mutant(
        "a load that is planned again has another instant",
        "Two actions of one DataFrame over Spark Connect see two states.",
        "spark/load_pin.py",
        (
            (
                "        if known is not None:\n            return LoadPin(",
                "        if False:\n            return LoadPin(",
            ),
        ),
        ("tests/unit/spark/test_load_pin.py::test_a_load_that_is_planned_again_has_the_instant_that_it_had",),
    ),
    Mutant(
        "a write to another store goes to the table that its rows came from",
        "The options that a schema carries go before the path that is given.",
        "spark/source.py",
        (('table_of(schema) if "path" not in self._options else None', "table_of(schema)"),),
        ("tests/unit/spark/test_tables.py::test_a_path_that_is_given_is_the_one_that_is_meant",),
    ),
    Mutant(
        "kept types outlive an overwrite",
        "A column that was replaced by one of another type is still read as the old one.",
        "documents/column_types.py",
        (("    found = {} if replace else kept_types(stored)\n", "    found = kept_types(stored)\n"),),
        ("tests/unit/spark/test_kept_types.py::test_types_of_several_writes",),
    ),
    Mutant(
        "a bulk load keeps no types",
        "Dates that were loaded in bulk come back as timestamps.",
        "sharing/loading/bulk.py",
        (("        return types_kept(row, self._job).having(", "        return row.having("),),
        ("tests/unit/spark/test_kept_types.py::test_what_is_written_is_read_with_the_same_types_and_values[0]",),
    ),
    Mutant(
        "tombstones are counted",
        "Documents that were deleted beside an open transaction are counted until the next sweep.",
        "engine/base/counting.py",
        (("    return count - _tombstones(base, txn, low, high), found\n", "    return count, found\n"),),
        ("tests/unit/engine/versions/test_counting.py::test_tombstones_do_not_count",),
    ),
    Mutant(
        "an old snapshot counts what came after it",
        "A count at an old instant is that of the base, which has moved on.",
        "engine/base/counting.py",
        (("(newest is None or newest > ts):\n        return None\n", "False:\n        return None\n"),),
        (
            "tests/unit/engine/versions/test_counting.py::test_an_instant_before_changes_that_the_base_has_is_counted_by_reading",
        ),
    ),
    Mutant(
        "what is in memory is counted twice",
        "A document that was updated since the last checkpoint counts once for the base and once for the layer.",
        "engine/versions/counting.py",
        (
            (
                "            count += (version[1] is not None) - (key in below)\n",
                "            count += version[1] is not None\n",
            ),
        ),
        (
            "tests/unit/engine/versions/test_counting.py::test_what_is_above_the_base_counts_and_what_was_deleted_does_not",
        ),
    ),
]
