"""Faults of loads and replications: rows that are judged wrongly, and replicas that differ from their source."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TESTS = "tests/spark/test_pipeline_replicate.py::test_"

MUTANTS = [
    Mutant(
        "a batch ends inside a commit",
        "Readers of a replica see half a commit of the source.",
        "pipeline/replicate/replicate.py",
        (("if batch and change.ts != batch[-1].ts and (", "if batch and ("),),
        (f"{_TESTS}a_commit_of_the_source_is_never_split",),
    ),
    Mutant(
        "a copy is not recorded before it begins",
        "What a killed copy has left stays for ever, if the source drops the collection.",
        "pipeline/replicate/replicate.py",
        (("                self.replica.apply({}, {}, state)\n", ""),),
        (f"{_TESTS}what_a_copy_that_was_cut_short_left_goes_if_the_source_drops_it",),
    ),
    Mutant(
        "a stale collection keeps its shape",
        "A collection that was not followed is taken for one that was, after a kill.",
        "pipeline/replicate/replicate.py",
        (("state.collections | dict.fromkeys(stale, UNKNOWN)", "state.collections"),),
        (f"{_TESTS}a_collection_that_looks_as_before_is_copied_if_it_was_not_followed_meanwhile",),
    ),
    Mutant(
        "a renamed collection is followed",
        "The documents that a collection had under another name are missing.",
        "pipeline/replicate/replicate.py",
        (("is_known = shape == CollectionShape(DOCUMENTS + name, PLAIN)", "is_known = True"),),
        (f"{_TESTS}what_is_no_change_of_documents_is_followed",),
    ),
    Mutant(
        "a replica asks the schema",
        "A document that is older than its schema stops the replication.",
        "pipeline/replicate/replica.py",
        (("row.having(schema=None) if row.schema is not None else None", "None"),),
        (f"{_TESTS}a_document_that_is_older_than_the_schema_is_replicated",),
    ),
    Mutant(
        "a copy keeps unique indexes",
        "Documents that exchanged a unique value cannot be copied in parts.",
        "pipeline/replicate/replica.py",
        (('if "unique" in found or encode_value(', "if encode_value("),),
        (f"{_TESTS}documents_may_exchange_unique_values",),
    ),
    Mutant(
        "a column that is taken stays",
        "A load has a column under its own name and under the mapping's.",
        "pipeline/load/rules.py",
        (("if name not in taken)", "if True)"),),
        ("tests/unit/pipeline/load/test_rules.py::test_a_row_becomes_a_document_or_a_rejection",),
    ),
    Mutant(
        "a row of nulls is lost",
        "A batch's rows are counted without those that have no value.",
        "pipeline/load/judging.py",
        (("        yield {name: value for", "        if any(row):\n            yield {name: value for"),),
        ("tests/unit/pipeline/load/test_rules.py::test_no_row_is_lost_between_the_batches_of_a_task",),
    ),
]
