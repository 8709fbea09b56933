"""Whole pipelines: streaming, what leads them, what they read, who owns the results, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.documents.aggregation import Leading, compile_pipeline, needed_fields
from lowtide.documents.aggregation.pipeline import STAGES
from lowtide.documents.filters import compile_filter
from lowtide.documents.sorting import compile_sort
from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import run, same

Stages = list[dict[str, Any]]


class Source:
    """Documents, and how many of them were taken."""

    def __init__(self, count: int = 1000) -> None:
        self.taken = 0
        self.count = count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in range(self.count):
            self.taken += 1
            yield {"_id": number, "n": number % 10, "l": [1, 2]}


@pytest.mark.parametrize(
    ("stages", "taken"),
    [
        ([], 1),
        ([{"$limit": 1}], 1),
        ([{"$match": {"n": 3}}, {"$limit": 1}], 4),
        ([{"$match": {"$expr": {"$eq": ["$n", 3]}}}], 4),
        ([{"$project": {"n": 1}}, {"$limit": 1}], 1),
        ([{"$project": {"n": 0}}], 1),
        ([{"$addFields": {"m": "$n"}}, {"$limit": 1}], 1),
        ([{"$unset": "n"}], 1),
        ([{"$unwind": "$l"}, {"$limit": 2}], 1),
        ([{"$skip": 5}, {"$limit": 1}], 6),
        ([{"$replaceRoot": {"newRoot": {"x": "$n"}}}], 1),
        ([{"$lookup": {"from": "x", "pipeline": [], "as": "y"}}], 1),
        ([{"$lookup": {"from": "x", "localField": "n", "foreignField": "n", "as": "y"}}], 1),
        ([{"$limit": 7}, {"$group": {"_id": None}}], 7),
        ([{"$limit": 7}, {"$sort": {"n": 1}}], 7),
        ([{"$group": {"_id": "$n"}}], 1000),
    ],
    ids=repr,
)
def test_the_first_result_takes_no_more_documents_than_it_needs(stages: Stages, taken: int) -> None:
    source = Source()
    results = compile_pipeline(stages).run(source, lambda name, filter: [])
    assert source.taken == 0
    next(results)
    assert source.taken == taken


def test_a_limit_ends_the_reading() -> None:
    source = Source()
    assert len(list(compile_pipeline([{"$match": {}}, {"$limit": 3}]).run(source))) == 3
    assert source.taken == 3


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_is_in_a_table(name: str) -> None:
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert f'{{"{name}":' in texts


@pytest.mark.parametrize(
    ("stages", "leading", "rest"),
    [
        ([], Leading(), []),
        ([{"$match": {"a": 1}}], Leading({"a": 1}), []),
        ([{"$match": {}}], Leading(), []),
        ([{"$match": {"a": 1}}, {"$match": {"b": 2}}], Leading({"$and": [{"a": 1}, {"b": 2}]}), []),
        ([{"$sort": {"a": 1, "b": -1}}], Leading(None, (("a", 1), ("b", -1))), []),
        ([{"$sort": {"a": 1}}, {"$match": {"b": 1}}], Leading({"b": 1}, (("a", 1),)), []),
        ([{"$sort": {"a": 1}}, {"$sort": {"b": 1}}], Leading(None, (("a", 1),)), ["$sort"]),
        ([{"$skip": 2}, {"$limit": 3}], Leading(skip=2, limit=3), []),
        ([{"$limit": 5}, {"$skip": 2}], Leading(skip=2, limit=3), []),
        ([{"$limit": 5}, {"$skip": 2}, {"$limit": 9}], Leading(skip=2, limit=3), []),
        ([{"$limit": 5}, {"$skip": 5}], Leading(limit=5), ["$skip"]),
        ([{"$limit": 5}, {"$match": {"a": 1}}], Leading(limit=5), ["$match"]),
        ([{"$skip": 5}, {"$sort": {"a": 1}}], Leading(skip=5), ["$sort"]),
        ([{"$match": {"$expr": True}}], Leading(), ["$match"]),
        ([{"$match": {"a": 1}}, {"$match": {"$or": [{"$expr": True}]}}], Leading({"a": 1}), ["$match"]),
        ([{"$project": {"a": 1}}, {"$match": {"a": 1}}], Leading(), ["$project", "$match"]),
        ([{"$match": {"a": 1}}, {"$group": {"_id": "$a"}}, {"$limit": 1}], Leading({"a": 1}), ["$group", "$limit"]),
    ],
    ids=repr,
)
def test_what_leads_a_pipeline_is_for_the_collection(stages: Stages, leading: Leading, rest: list[str]) -> None:
    pipeline = compile_pipeline(stages)
    assert pipeline.leading == leading
    assert pipeline.rest.names() == rest


simple = st.one_of(
    st.sampled_from(
        [
            {"$match": {"a": {"$gte": 2}}},
            {"$match": {"b": 1}},
            {"$match": {"$expr": {"$lt": ["$a", "$b"]}}},
            {"$sort": {"a": 1, "_id": 1}},
            {"$sort": {"b": -1, "_id": -1}},
            {"$addFields": {"a": {"$add": ["$b", 1]}}},
            {"$project": {"b": 1}},
            {"$group": {"_id": "$a", "b": {"$sum": "$b"}}},
        ]
    ),
    st.builds(lambda count: {"$skip": count}, st.integers(0, 4)),
    st.builds(lambda count: {"$limit": count}, st.integers(1, 6)),
)
rows = st.lists(st.fixed_dictionaries({"a": st.integers(0, 4), "b": st.integers(0, 2), "c": st.integers(0, 1)}))


@given(stages=st.lists(simple, max_size=6), documents=rows)
def test_the_leading_part_and_the_rest_are_the_whole(stages: Stages, documents: Stages) -> None:
    documents = [{"_id": number, **document} for number, document in enumerate(documents)]
    pipeline = compile_pipeline(stages)
    leading = pipeline.leading
    found = [document for document in documents if compile_filter(leading.filter).matches(document)]
    if leading.sort is not None:
        found = compile_sort(leading.sort).sorted(found)
    found = found[leading.skip :] if leading.limit is None else found[leading.skip : leading.skip + leading.limit]
    assert same(list(pipeline.rest.run(found)), list(pipeline.run(documents)))


@given(stages=st.lists(simple, max_size=6), documents=rows)
def test_a_pipeline_is_its_stages_one_after_the_other(stages: Stages, documents: Stages) -> None:
    documents = [{"_id": number, **document} for number, document in enumerate(documents)]
    wanted = documents
    for stage in stages:
        wanted = run([stage], wanted)
    assert same(run(stages, documents), wanted)


@given(stages=st.lists(simple, max_size=6), documents=rows)
def test_the_needed_fields_are_enough(stages: Stages, documents: Stages) -> None:
    documents = [{"_id": number, **document} for number, document in enumerate(documents)]
    pipeline = compile_pipeline(stages)
    needed = needed_fields(pipeline)
    if needed is not None:
        less = [{name: each for name, each in document.items() if name in needed} for document in documents]
        assert same(list(pipeline.run(less)), list(pipeline.run(documents)))


GROUP = {"$group": {"_id": "$city", "n": {"$sum": 1}, "total": {"$sum": "$amount.net"}}}


@pytest.mark.parametrize(
    ("stages", "needed"),
    [
        ([], None),
        ([{"$match": {"a": 1}}], None),
        ([{"$sort": {"a": 1}}, {"$limit": 1}], None),
        ([{"$count": "n"}], []),
        ([{"$match": {"a.b": 1, "$or": [{"c": 1}, {"d": 2}]}}, {"$count": "n"}], ["a", "c", "d"]),
        ([{"$match": {"$expr": {"$gt": ["$a.x", "$b"]}}}, {"$count": "n"}], ["a", "b"]),
        ([GROUP], ["city", "amount"]),
        ([{"$group": {"_id": {"a": "$a", "b": "$$ROOT.b"}}}], ["a", "b"]),
        ([{"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}], None),
        ([{"$group": {"_id": None, "t": {"$top": {"sortBy": {"s.x": 1}, "output": "$o"}}}}], ["s", "o"]),
        ([{"$project": {"a": 1, "b.c": 1, "d": "$e.f"}}], ["_id", "a", "b", "e"]),
        ([{"$project": {"a": 1, "_id": 0}}], ["a"]),
        ([{"$project": {"a": 0}}, GROUP], ["city", "amount"]),
        ([{"$unset": "a"}], None),
        ([{"$addFields": {"x": "$y", "o.p": 1}}, GROUP], ["y", "o", "city", "amount"]),
        ([{"$unwind": {"path": "$l.m", "includeArrayIndex": "i"}}, GROUP], ["l", "i", "city", "amount"]),
        ([{"$sort": {"s.t": 1}}, {"$limit": 5}, GROUP], ["s", "city", "amount"]),
        ([{"$sample": {"size": 1}}, GROUP], ["city", "amount"]),
        ([{"$replaceRoot": {"newRoot": "$o.x"}}], ["o"]),
        ([{"$replaceRoot": {"newRoot": {"$mergeObjects": ["$$ROOT", "$o"]}}}], None),
        ([{"$sortByCount": "$a.b"}], ["a"]),
        ([{"$bucket": {"groupBy": "$p", "boundaries": [0, 1], "output": {"x": {"$max": "$q"}}}}], ["p", "q"]),
        ([{"$bucketAuto": {"groupBy": "$p", "buckets": 2}}], ["p"]),
        ([{"$facet": {"x": [{"$count": "n"}], "y": [GROUP]}}], ["city", "amount"]),
        ([{"$facet": {"x": [{"$count": "n"}], "y": [{"$limit": 1}]}}], None),
        (
            [{"$lookup": {"from": "o", "localField": "k.l", "foreignField": "f", "as": "z"}}, GROUP],
            ["k", "city", "amount"],
        ),
        (
            [{"$lookup": {"from": "o", "let": {"v": "$w"}, "pipeline": [{"$match": {"q": 1}}], "as": "z"}}, GROUP],
            ["w", "city", "amount"],
        ),
        ([{"$group": {"_id": {"$let": {"vars": {"v": "$a"}, "in": "$$v.b"}}}}], ["a"]),
        ([{"$group": {"_id": {"$getField": "a"}}}], None),
        ([GROUP, {"$match": {"elsewhere": 1}}], ["city", "amount"]),
    ],
    ids=repr,
)
def test_a_pipeline_knows_the_fields_that_it_reads(stages: Stages, needed: list[str] | None) -> None:
    assert needed_fields(compile_pipeline(stages)) == (None if needed is None else frozenset(needed))


def test_a_pipeline_may_run_again_and_at_the_same_time() -> None:
    pipeline = compile_pipeline([{"$skip": 1}, {"$group": {"_id": "$a", "n": {"$push": "$b"}}}])
    documents = [{"a": 1, "b": number} for number in range(3)]
    first, second = pipeline.run(documents), pipeline.run(documents)
    assert next(first) == next(second) == {"_id": 1, "n": [1, 2]}
    assert list(pipeline.run(documents)) == [{"_id": 1, "n": [1, 2]}]


@pytest.mark.parametrize(
    "stage",
    [
        {"$addFields": {"x": "$l", "y": {"z": "$l"}}},
        {"$addFields": {"x": {"$literal": [1]}}},
        {"$project": {"l": 1, "x": "$l", "y": ["$l", "$l"]}},
        {"$project": {"o": {"p": "$l", "q": "$l"}, "m": "$l"}},
        {"$unwind": "$u"},
        {"$group": {"_id": None, "x": {"$push": "$l"}, "y": {"$first": "$l"}, "z": {"$max": "$l"}}},
        {"$group": {"_id": "$l", "x": {"$first": "$l"}}},
        {"$replaceWith": {"x": "$l", "y": "$l"}},
        {"$facet": {"x": [{"$limit": 1}], "y": [{"$skip": 0}]}},
        {"$lookup": {"from": "others", "localField": "k", "foreignField": "k", "as": "x"}},
        {"$bucket": {"groupBy": 1, "boundaries": [0, 2], "output": {"x": {"$push": "$l"}, "y": {"$push": "$l"}}}},
    ],
    ids=repr,
)
def test_what_comes_out_holds_no_object_or_array_twice(stage: dict[str, Any]) -> None:
    documents = [{"l": [1], "k": 1, "u": [1, 2]}, {"l": [2], "k": 1, "u": [3]}]
    results = run([stage], documents, {"others": [{"k": 1, "l": [3]}]})
    held: list[int] = []

    def visit(value: Any) -> None:
        if isinstance(value, dict | list):
            held.append(id(value))
            for each in value.values() if isinstance(value, dict) else value:
                visit(each)

    for result in results:
        visit(result)
    assert len(held) == len(set(held))


@pytest.mark.parametrize(
    ("pipeline", "reason"),
    [
        ({"$match": {}}, "a pipeline must be a list of stages, got dict"),
        (None, "a pipeline must be a list of stages"),
        ([1], "stage 1 must be an object with one stage name, got int 1"),
        ([{}], "stage 1 must be an object with one stage name"),
        ([{"$skip": 1}, {"$limit": 1, "$skip": 2}], "stage 2 must be an object with one stage name"),
        ([{"$skip": 1}, {"$nope": 1}], r"stage 2: unknown stage \$nope"),
        ([{"match": {}}], "stage 1: unknown stage match"),
        ([{"$out": "elsewhere"}], r"stage 1: unknown stage \$out"),
        ([{"$match": {1: 2}}], "field names must be strings, got int 1"),
    ],
    ids=repr,
)
def test_a_pipeline_that_cannot_be_is_refused_before_it_runs(pipeline: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        compile_pipeline(pipeline)


def test_an_error_while_it_runs_names_the_stage() -> None:
    stages: Stages = [{"$match": {}}, {"$addFields": {"x": {"$divide": [1, "$n"]}}}]
    with pytest.raises(OperationFailure, match=r"^stage 2 \(\$addFields\): field 'x': \$divide: division by zero"):
        run(stages, [{"n": 0}])
