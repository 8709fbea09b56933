"""The commands on the command line page run, and print what it shows. ``...`` stands for any text."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowtide import pipeline
from tests.docs.documents import ROOT, code_blocks
from tests.support.java import needs_java
from tests.support.workers import COMMANDS_WITHOUT_SPARK
from tests.unit.cli.commands import invoke, make, make_shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / "docs" / "cli.md"
TOML = 'store = "shop"\narchive = "shop-archive"\n'
HISTORY = code_blocks(ROOT / "docs" / "audit.md", "json")[0].code
FILES = {
    "commands.txt": code_blocks(PAGE, "text")[-1].code,
    "people.csv": "id,name,born\n1,Ada,1815-12-10\n2,Bob,\n",
    "tinydb.json": '{"_default": {"1": {"name": "Ada"}, "2": {"name": "Bob"}}, "pets": {"1": {"name": "Rex"}}}',
    "pipeline.toml": TOML,
    "people.ttl": (
        "@prefix foaf: <http://xmlns.com/foaf/0.1/> .\n"
        '<urn:ann> a foaf:Person ; foaf:name "Ann" ; foaf:age 42 ; foaf:knows <urn:bob> .\n'
        '<urn:bob> a foaf:Person ; foaf:name "Bob"@en .\n'
    ),
    "schema.json": '{"properties": {"age": {"minimum": 30}}}',
}
EXAMPLES = [
    (shlex.split(line), shown)
    for block in code_blocks(PAGE, "console")
    for line, shown in re.findall(r"^\$ lowtide (.+)\n((?:(?!\$ ).*\n)*)", block.code, re.MULTILINE)
]


WITHOUT_ARCHIVE = ("archive", "run", "audit", "load", "replicate")


def on_spark(arguments: list[str]) -> bool:
    return arguments[0] == "pipeline" and arguments[1] not in COMMANDS_WITHOUT_SPARK


def _needing(arguments: list[str], shown: str) -> object:
    if on_spark(arguments):
        return pytest.param(arguments, shown, marks=needs_java(), id=" ".join(arguments[:2]))
    return pytest.param(arguments, shown, id=" ".join(arguments[: 2 if arguments[0] == "rdf" else 1]))


@pytest.fixture(scope="module")
def archived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a shop and its archive, to be copied."""
    directory = tmp_path_factory.mktemp("archived")
    make_shop(directory / "shop")
    pipeline.archive(spark, directory / "shop", directory / "shop-archive")
    return directory


@pytest.mark.parametrize(("arguments", "shown"), [_needing(*each) for each in EXAMPLES])
def test_an_example_prints_what_the_page_shows(
    arguments: list[str],
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    with_archive = on_spark(arguments) and arguments[1] not in WITHOUT_ARCHIVE
    if on_spark(arguments):
        request.getfixturevalue("spark")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    if with_archive:
        shutil.copytree(request.getfixturevalue("archived"), tmp_path, dirs_exist_ok=True)
    elif "shop" in arguments or arguments[0] == "pipeline":
        make_shop(tmp_path / "shop")
    else:
        make(tmp_path / "data")
    (tmp_path / "history.jsonl").write_text(HISTORY)
    if "weekly" in arguments and "--ttl 7d" not in " ".join(arguments):
        assert invoke("pin", "data", "weekly", "--ttl", "7d").exit_code == 0
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    if arguments[0] == "rdf" and arguments[1] != "load":
        assert invoke("rdf", "load", "data", "people.ttl").exit_code == 0
    *arguments, given = arguments if "<" in arguments else [*arguments, ""]
    result = invoke(*(each for each in arguments if each != "<"), input=FILES.get(given))
    assert result.exit_code == 0, result.output
    same = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(shown, result.stdout, same), result.stdout
