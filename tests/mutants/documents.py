"""Faults of documents: index entries without a document, documents without an entry, statements that are not atomic."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BUILDS = "tests/documents/test_index_builds.py::"
_BESIDE = "tests/documents/test_builds_beside_writers.py::"
_PREPARED = "tests/documents/test_prepared.py::"
_INSERTS = "tests/unit/documents/prepared/test_inserts.py::"
_SPLICES = "tests/unit/documents/prepared/test_splices.py::"

MUTANTS = [
    Mutant(
        "an update takes the first bytes that look like its field",
        "A change of one field is written into the value of another one.",
        "documents/prepared/splices.py",
        (("if at < 0 or at != stored.rfind(part{place}): return None", "if at < 0: return None"),),
        (_SPLICES + "test_bytes_that_look_like_the_field_elsewhere_are_left_alone",),
    ),
    Mutant(
        "an update counts what looks like its field without overlaps",
        "A change of one field is written over the end of the field before it.",
        "documents/prepared/splices.py",
        (("at != stored.rfind(part{place})", "stored.count(part{place}) > 1"),),
        (_SPLICES + "test_bytes_that_look_like_the_field_and_overlap_it_are_left_alone",),
    ),
    Mutant(
        "fields are added in the order of the last update",
        "A document gets new fields in another order than the update names them.",
        "documents/prepared/splices.py",
        (("    if len(changes) > 1:  #", "    if len(changes) > 9:  #"),),
        (_SPLICES + "test_fields_that_a_document_lacks_are_added_in_the_order_of_the_update",),
    ),
    Mutant(
        "an update is recognized by its fields alone",
        "A value of another type is taken for a plain one, and stored without a check.",
        "documents/prepared/binding.py",
        (('same = [f"type(v{place}) is k{place}" for place', 'same = [f"v{place} is not k{place}" for place'),),
        (
            "tests/unit/documents/prepared/test_updates.py::test_an_update_of_another_shape_is_not_bound[other3]",
            "tests/unit/documents/prepared/test_updates.py::test_an_update_of_another_shape_is_not_bound[other4]",
        ),
    ),
    Mutant(
        "a find keeps the list of ids that it was given",
        "A list that is changed before the cursor is read changes what it finds.",
        "documents/prepared/binding.py",
        (("    return tuple(given) if", "    return given if"),),
        ("tests/unit/documents/prepared/test_lookups.py::test_other_values_than_ids_are_not_bound",),
    ),
    Mutant(
        "a writer relies on no indexes",
        "A transaction that wrote before an index was announced commits documents without entries.",
        "documents/write_batch.py",
        (("(self.reader.row_key, *self._left_alone)", "tuple(self._left_alone)"),),
        (
            _BUILDS + "test_a_transaction_that_wrote_before_an_index_or_a_collection_came_or_went_cannot_commit_after",
            "tests/docs/test_documents_promises.py::test_who_writes_relies_on_indexes_and_schema_at_every_level",
        ),
    ),
    Mutant(
        "a writer does not rely on the entry that it left alone",
        "A unique index keeps an entry of a value that its document has given up.",
        "documents/write_batch.py",
        (("(self.reader.row_key, *self._left_alone)", "(self.reader.row_key,)"),),
        (_BUILDS + "test_a_writer_that_left_another_ones_entry_alone_relies_on_it",),
    ),
    Mutant(
        "a writer removes the entry of another document",
        "While a unique index is built, a document that gives up a value takes the entry of another one with it.",
        "documents/write_batch.py",
        (
            (
                "        if index.building and index.unique and (holder := self._read(entry)) is not None",
                "        if index.multikey and index.unique and (holder := self._read(entry)) is not None",
            ),
        ),
        (_BUILDS + "test_a_document_that_gives_up_a_value_that_another_has_too_leaves_that_its_entry",),
    ),
    Mutant(
        "a writer removes only entries that are there",
        "A step enters a value that its document has lost meanwhile, since its writer had nothing to remove.",
        "documents/write_batch.py",
        (
            (
                "        changes[entry] = None\n        before[entry] = entry_value(index, key)\n",
                (
                    "        if not index.building or self._read(entry) is not None:\n"
                    "            changes[entry] = None\n"
                    "            before[entry] = entry_value(index, key)\n"
                ),
            ),
        ),
        (_BUILDS + "test_what_is_written_while_a_step_stands_before_its_commit_is_in_the_index",),
    ),
    Mutant(
        "a build does not look again at what it left out",
        "A unique index becomes ready though two documents have one value.",
        "documents/indexes/build.py",
        (
            (
                "    return current, [*rest, *dict.fromkeys(owners[entry] for entry in left_out)]\n",
                "    return current, rest\n",
            ),
        ),
        (
            _BESIDE + "test_a_duplicate_that_comes_under_a_step_ends_the_build",
            _BESIDE + "test_a_value_that_is_taken_and_given_up_under_a_step_is_entered_for_its_first_document",
        ),
    ),
    Mutant(
        "a build does not give way",
        "A step is repeated for as long as documents change under it.",
        "documents/indexes/build.py",
        (("tx.give_way(set(owners), before) if owners else []", "[]"),),
        (_BESIDE + "test_a_build_ends_though_documents_of_every_step_change_under_it",),
    ),
    Mutant(
        "a build runs after what others insert",
        "The documents to enter are those of each step's own instant, so a build never ends beside quick inserts.",
        "documents/indexes/build.py",
        (
            (
                '                after = keys[-1] + b"\\x00"\n            return\n',
                (
                    '                after = keys[-1] + b"\\x00"\n'
                    "                held.close()\n"
                    "                held = statements.hold()\n"
                    "                scan = held.reading.scan(Range(prefix + after, after_prefix(prefix)))\n"
                    "            return\n"
                ),
            ),
        ),
        (_BESIDE + "test_a_build_does_not_run_after_the_documents_that_others_insert",),
    ),
    Mutant(
        "a commit gives way to no member of its group",
        "A step is refused for what an earlier member of its group of commits writes.",
        "engine/transaction/yielding.py",
        (
            (
                "for each in earlier for key in each.writes if key in keys",
                "for each in earlier[:0] for key in each.writes",
            ),
        ),
        (
            "tests/unit/engine/transaction/test_yielding.py::test_what_an_earlier_member_of_the_group_writes_is_left_out",
        ),
    ),
    Mutant(
        "the log keeps what a commit left out",
        "After a crash the index has entries that the commit had given up.",
        "engine/transaction/yielding.py",
        (
            (
                "    tell(request, [yielding.before[key] for key in writes], keep_before)\n",
                "    assert keep_before is not None\n",
            ),
        ),
        (
            "tests/unit/engine/transaction/test_yielding.py::test_the_log_has_what_was_committed_and_no_more",
            _BESIDE + "test_a_build_that_a_crash_cut_short_beside_writers_is_finished_after_it",
        ),
    ),
    Mutant(
        "a build does not note arrays",
        "The planner joins two bounds on a field that is an array in some document.",
        "documents/indexes/build.py",
        (("multikey=bool(special & MULTIKEY)", "multikey=False"),),
        (_BESIDE + "test_a_step_takes_no_more_documents_once_it_has_many_entries",),
    ),
    Mutant(
        "a writer does not note arrays",
        "The planner joins two bounds on a field that has just become an array.",
        "documents/write_batch.py",
        (("multikey=bool(special & MULTIKEY)", "multikey=False"),),
        ("tests/unit/documents/test_management.py::test_an_array_makes_an_index_multikey_for_good",),
    ),
    Mutant(
        "an index is read while it is built",
        "A query does not find the documents that are not in the index yet.",
        "documents/plans/planner.py",
        (("ready = [each for each in indexes if not each.building]", "ready = list(indexes)"),),
        (_BUILDS + "test_a_build_that_was_interrupted_is_finished_by_the_next_one",),
    ),
    Mutant(
        "a cursor is not steady",
        "A loop over a cursor in a transaction meets what the loop itself has written.",
        "engine/statements/statement.py",
        (
            ("        self._steady = steady\n", "        self._steady = False\n"),
            ("tx.own_writes() if steady and tx.writes else None", "tx.own_writes() if False else None"),
        ),
        ("tests/unit/documents/test_cursor.py::test_in_a_transaction_it_goes_on_unmoved_by_what_is_written_meanwhile",),
    ),
    Mutant(
        "a statement does not guard what it writes",
        "Below SNAPSHOT an update is lost, and an entry leads to a document that has another value.",
        "engine/statements/statement.py",
        (("for full_key in (*relied_on, *guarded):", "for full_key in relied_on:"),),
        ("tests/docs/test_documents_promises.py::test_no_level_loses_an_update_within_a_statement",),
    ),
    Mutant(
        "a drop starts over with each step",
        "Dropping an index takes quadratic time.",
        "documents/management.py",
        (('start = reached[1] if reached[0] == keyspace else b""', 'start = b""'),),
        ("tests/documents/test_drops.py::test_a_drop_passes_each_key_once",),
    ),
    Mutant(
        "a sparse index is asked for what may be missing",
        "A query by $exists false reads an index that holds none of the documents in question.",
        "documents/plans/planner.py",
        (
            (
                "    if index.sparse and not any(_demands(filter, path) for path in index.paths):\n",
                "    if index.sparse and not filter.conjuncts:\n",
            ),
        ),
        ("tests/unit/documents/plans/test_planner.py::test_a_sparse_index_serves_what_asks_for_one_of_its_fields",),
    ),
    Mutant(
        "a transaction remembers a collection that it has changed",
        "A statement after an index was created in the same transaction writes no entries.",
        "documents/prepared/statements.py",
        (("if known is not None and known.row_key not in view.writes:", "if known is not None:"),),
        (_PREPARED + "test_what_a_transaction_changes_in_the_catalog_holds_for_its_next_statement",),
    ),
    Mutant(
        "known names stand for plain values",
        "A document whose names were seen before is stored with values that the store encodes otherwise.",
        "documents/prepared/inserts.py",
        (("        if _WHOLE.issuperset(map(type, values)) or (", "        if values or ("),),
        (_INSERTS + "test_known_names_say_nothing_of_values",),
    ),
    Mutant(
        "many documents are inserted over those that are there",
        "A batch replaces documents, and leaves the entries of the old ones.",
        "documents/prepared/inserts.py",
        (("if view.read_many(full_keys).count(None) < len(keys):", "if len(full_keys) < len(keys):"),),
        (_INSERTS + "test_a_document_that_is_there_is_named_and_those_before_it_are_inserted",),
    ),
    Mutant(
        "an array in a batch has one entry",
        "Documents that are inserted by column are not found by the elements of their arrays.",
        "documents/prepared/inserts.py",
        (("    if list in kinds:\n", "    if tuple in kinds:\n"),),
        (_PREPARED + "test_of_an_array_each_element_has_an_entry_however_the_document_came",),
    ),
    Mutant(
        "the entry of a given document is made of any value",
        "A tuple is indexed as it was given, though it is stored as an array.",
        "documents/prepared/keys.py",
        (("type({local}) not in plain", "type({local}) is list"),),
        ("tests/unit/documents/prepared/test_keys.py::test_of_a_given_document_only_plain_values_have_an_entry",),
    ),
    Mutant(
        "documents are found by their ids alone",
        "The other conditions beside $in are forgotten.",
        "documents/prepared/statements.py",
        (("    if shape.others:\n", "    if False:\n"),),
        (_PREPARED + "test_of_the_ids_that_are_asked_for_those_are_found_that_match_the_rest",),
    ),
    Mutant(
        "a find goes on with what was written meanwhile",
        "Of many documents, those after the first ones are read with what the transaction wrote since.",
        "documents/cursor.py",
        (
            (
                "return chain(found, self._reader().documents(filter, few.rest, decode=decode))",
                "return chain(found, (each for _ in (1,) for each in self._reader().documents(filter, few.rest)))",
            ),
        ),
        (_PREPARED + "test_a_find_of_many_documents_goes_on_where_its_first_ones_end[1]",),
    ),
    Mutant(
        "an update leaves the entry of the old value",
        "A document is found by a value that it had before.",
        "documents/prepared/changes.py",
        (("            writes[lost], before[lost] = None, length\n", "            before[lost] = length\n"),),
        (_PREPARED + "test_an_update_moves_the_entries_of_its_document",),
    ),
    Mutant(
        "a projection is decoded before the filter has seen the document",
        "A filter or a sort does not find the part of a field that the projection leaves out.",
        "documents/reader.py",
        (("if read is projection.fields else", "if read == projection.fields else"),),
        (
            "tests/unit/documents/test_read_collection.py::test_a_projection_leaves_out_what_the_filter_and_the_sort_read",
        ),
    ),
    Mutant(
        "a nested document is stored as msgspec encodes it",
        "A set, a date or a Decimal inside an object or an array is stored as something else.",
        "values/codec.py",
        (("_decode_json(encoded) == plain", "_decode_json(encoded) is not None"),),
        (
            "tests/unit/values/test_codec.py::test_nested_values_that_msgspec_would_encode_are_refused_all_the_same[set]",
        ),
    ),
]
