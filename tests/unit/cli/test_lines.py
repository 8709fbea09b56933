"""A line of the shell is split into words, including JSON and quotes."""

from __future__ import annotations

import pytest
from hypothesis import given

from lowtide.cli.lines import Unfinished, is_unfinished, words_of
from lowtide.errors import UsageError
from lowtide.values.extended import dumps
from lowtide.values.values import Document
from tests.unit.documents.files.values import documents


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  \n", []),
        ("stats", ["stats"]),
        ("find users", ["find", "users"]),
        (
            'find users {"a b": [1, {"c": "}"}]}  --limit 3\n',
            ["find", "users", '{"a b": [1, {"c": "}"}]}', "--limit", "3"],
        ),
        ('find users {"a":\n 1}', ["find", "users", '{"a":\n 1}']),
        (r'find users {"a": "\"}"}', ["find", "users", r'{"a": "\"}"}']),
        ('import \'my users\' "a \\"file\\".csv"', ["import", "my users", 'a "file".csv']),
        ("import users C:\\x", ["import", "users", "C:\\x"]),
        ("sql select '{' from \"users\" where a = 'x;' ;", ["sql", "select '{' from \"users\" where a = 'x;' "]),
        ('sql "select 1"', ["sql", "select 1"]),
        ("sql", ["sql"]),
        ("export users a{b", ["export", "users", "a{b"]),
    ],
)
def test_a_line_is_cut_into_words(line: str, words: list[str]) -> None:
    assert words_of(line) == words
    assert not is_unfinished(line)


@pytest.mark.parametrize(
    "line", ["find users {", 'find users {"a": [1, 2}', 'find users {"a": "}', "import 'x", 'import "x']
)
def test_a_line_with_open_brackets_or_quotes_goes_on(line: str) -> None:
    if line.endswith("2}"):
        with pytest.raises(UsageError, match=r"} at character \d+ closes a bracket that is not open"):
            words_of(line)
        return
    with pytest.raises(Unfinished):
        words_of(line)
    assert is_unfinished(line)


@pytest.mark.parametrize("line", ['find users {"a": 1}--limit', "import 'x'y"])
def test_words_need_a_space_between_them(line: str) -> None:
    with pytest.raises(UsageError, match="must be a space"):
        words_of(line)


@given(documents, documents)
def test_any_json_is_one_word(first: Document, second: Document) -> None:
    texts = [dumps(first).decode(), dumps([second]).decode()]
    assert words_of(f"update users {texts[0]}  {texts[1]} --many") == ["update", "users", *texts, "--many"]
    assert is_unfinished(f"update users {texts[0][:-1]}")
