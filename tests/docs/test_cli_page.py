"""The commands on the page of the command line run, and print what it shows; ``...`` stands for anything."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, code_blocks
from tests.unit.cli.commands import invoke, make, make_shop

PAGE = ROOT / "docs" / "cli.md"
HISTORY = code_blocks(ROOT / "docs" / "audit.md", "json")[0].code
FILES = {
    "commands.txt": code_blocks(PAGE, "text")[-1].code,
    "people.csv": "id,name,born\n1,Ada,1815-12-10\n2,Bob,\n",
    "tinydb.json": '{"_default": {"1": {"name": "Ada"}, "2": {"name": "Bob"}}, "pets": {"1": {"name": "Rex"}}}',
    "schema.json": '{"properties": {"age": {"minimum": 30}}}',
}
EXAMPLES = [
    (shlex.split(line), shown)
    for block in code_blocks(PAGE, "console")
    for line, shown in re.findall(r"^\$ lowtide (.+)\n((?:(?!\$ ).*\n)*)", block.code, re.MULTILINE)
]


@pytest.mark.parametrize(("arguments", "shown"), EXAMPLES, ids=lambda each: each[0] if isinstance(each, list) else "")
def test_an_example_prints_what_the_page_shows(
    arguments: list[str], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    if "shop" in arguments:
        make_shop(tmp_path / "shop")
    else:
        make(tmp_path / "data")
    (tmp_path / "history.jsonl").write_text(HISTORY)
    if "weekly" in arguments and "--ttl 7d" not in " ".join(arguments):
        assert invoke("pin", "data", "weekly", "--ttl", "7d").exit_code == 0
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    *arguments, given = arguments if "<" in arguments else [*arguments, ""]
    result = invoke(*(each for each in arguments if each != "<"), input=FILES.get(given))
    assert result.exit_code == 0, result.output
    same = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(shown, result.stdout, same), result.stdout
