"""Regular expressions that would take exponential time in ``re`` are evaluated in another way, with the same answer."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide
from lowtide.documents.regex.automaton import Automaton, Unsupported
from lowtide.documents.regex.backtracking import Explosive, is_explosive, search_of

EXPLOSIVE = [
    *("^(a+)+$", "^(a|aa)+$", "(a*)*b", "(.*)*x", r"^(\w+\s?)*$", "(x+x+)+y", "(a+){10}$", "^(a?){25}a{25}$"),
    *(
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        r"(\s*\w+\s*)*;",
        r"(?i)^(a|A+)+$",
        "^(?=a)(a+)+$",
        r"^((ab)*|(a|b)*)*$",
        "(a+?)+?$",
    ),
    *("^([a-z]+)*[^a-z]{2}", "(?m)^(a+)+$", "(?x) ^ (a +)+ $", "^(?:a(?:b|c)?|ab)*$"),
]
ORDINARY = [
    *("^a", "a.*b", "(a+)+", r"^(\w+\s)+$", r"^(\d+,)*\d+$", "^(a|ab)*c", "(foo|bar)+baz", "((a|b)*c)*d", "^(ab*)*$"),
    *(
        r"^(?:[\w.+-]+)@(?:[a-z0-9-]+\.)+[a-z]{2,}$",
        "(?>a+)+$",
        "(a++)+$",
        r"^(.|\n)*$",
        "(a)(b)?c",
        r"(\w)\1",
        r"^(\d|\w)+$",
    ),
]


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_what_takes_exponential_time_is_known(pattern: str) -> None:
    assert is_explosive(re.compile(pattern))


@pytest.mark.parametrize("pattern", ORDINARY)
def test_what_does_not_is_asked_by_re_itself(pattern: str) -> None:
    compiled = re.compile(pattern)
    assert not is_explosive(compiled)
    assert search_of(compiled).__self__ == compiled  # type: ignore[attr-defined]


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_no_text_takes_long(pattern: str) -> None:
    """Thousands of letters. ``re`` would need days for the first fifty. The test measures time, but with a margin of
    many powers of ten."""
    search = search_of(re.compile(pattern))
    began = time.thread_time()
    for text in ("a" * 3000 + "!", "ab" * 1500 + "!", "x" * 3000, "a " * 1500 + "!"):
        search(text)
    assert time.thread_time() - began < 20


@pytest.mark.parametrize("pattern", [r"^(a+)+\1$", r"^(?=(a+)+$)a", r"^(a+)+(?!b+)$"])
def test_what_can_be_asked_in_no_way_is_refused(store: lowtide.Store, pattern: str) -> None:
    with pytest.raises(Explosive, match="exponential time"):
        search_of(re.compile(pattern))
    with pytest.raises(lowtide.OperationFailure, match=r"\$regex at 'a': .* exponential time"):
        store["c"].find({"a": {"$regex": pattern}})
    with pytest.raises(lowtide.OperationFailure, match=r"\$regex at 'a': .* exponential time"):
        store["c"].find({"a": re.compile(pattern)})


LETTERS = st.text("ab \n!A", max_size=7)
CHARACTERS = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\w", r"\s", "A"])
ASSERTIONS = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\Z", "(?=a)", "(?!b)", "(?<=a)", "(?<!b)"])


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "??"])
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, repeats).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda part: f"(?i:{part})"),
    )


PATTERNS = st.recursive(CHARACTERS | ASSERTIONS, compound, max_leaves=5)


@given(PATTERNS, st.lists(LETTERS, min_size=1, max_size=8), st.sampled_from([0, re.I, re.M, re.S, re.A]))
def test_the_automaton_answers_as_re_does(pattern: str, texts: list[str], flags: int) -> None:
    compiled = re.compile(pattern, flags)
    try:
        automaton = Automaton(compiled)
    except Unsupported:
        return
    for text in texts:
        assert automaton.found_in(text) == (compiled.search(text) is not None), (pattern, text)


def filters() -> list[Any]:
    return [
        {"a": {"$regex": "^(a+)+$"}},
        {"a": re.compile("^(a+)+$")},
        {"a": {"$in": [re.compile("^(a+)+$"), 5]}},
        {"a": {"$all": [re.compile("^(a+)+$")]}},
        {"a": {"$not": {"$not": re.compile("^(a+)+$")}}},
    ]


@pytest.mark.parametrize("filter", filters(), ids=str)
def test_filters_find_what_such_patterns_match(store: lowtide.Store, filter: Any) -> None:
    store["c"].insert_many([{"_id": 1, "a": "a" * 200}, {"_id": 2, "a": "a" * 200 + "!"}, {"_id": 3}])
    assert [each["_id"] for each in store["c"].find(filter)] == [1]


def test_pipelines_tell_whether_such_patterns_match_and_not_where(store: lowtide.Store) -> None:
    store["c"].insert_many([{"_id": 1, "a": "a" * 200}, {"_id": 2, "a": "a" * 200 + "!"}])
    asked = {"input": "$a", "regex": "^(a+)+$"}
    results = store["c"].aggregate([{"$project": {"found": {"$regexMatch": asked}}}]).to_list()
    assert [each["found"] for each in results] == [True, False]
    for operator in ("$regexFind", "$regexFindAll"):
        with pytest.raises(lowtide.OperationFailure, match="exponential time"):
            store["c"].aggregate([{"$project": {"found": {operator: asked}}}]).to_list()


def test_schemas_ask_such_patterns_too(store: lowtide.Store) -> None:
    store["c"].set_schema({"properties": {"a": {"pattern": "^(a+)+$"}}})
    store["c"].insert_one({"a": "a" * 200})
    with pytest.raises(lowtide.DocumentRefused):
        store["c"].insert_one({"a": "a" * 200 + "!"})
