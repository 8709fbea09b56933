"""Every command and option has a help text, and the documentation has every command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from lowtide.cli.app import app
from lowtide.cli.failures import ATTENTION, ENDED, FAILED, INTERRUPTED, UNREAD, WRONG
from tests.docs.documents import ROOT, section, table
from tests.unit.cli.commands import invoke

PAGE = ROOT / "docs" / "cli.md"


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The commands by their full names, the one above them all first."""
    yield name, command
    for each, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {each}".strip())


COMMANDS = dict(commands(typer.main.get_command(app)))
LEAVES = {name: command for name, command in COMMANDS.items() if not hasattr(command, "commands")}


def test_the_commands_are_those_that_were_promised() -> None:
    assert set(LEAVES) == {
        *("stats", "snapshots", "pins", "pin", "unpin", "changes", "consumers", "verify", "checkpoint", "gc", "backup"),
        *("compact", "metrics", "top", "audit", "inspect key", "inspect segment", "inspect base"),
        *("collections", "find", "count", "aggregate", "sql", "insert", "update", "delete", "indexes", "schema"),
        *("import", "export", "shell"),
        *("rdf load", "rdf dump", "rdf query", "rdf update", "rdf explain"),
        *("pipeline compact", "pipeline vacuum", "pipeline erase", "pipeline tag"),
        *("pipeline restore", "pipeline put-back", "pipeline recover"),
        *("pipeline archive", "pipeline run", "pipeline status", "pipeline audit"),
        *("pipeline as-of", "pipeline history", "pipeline diff"),
        *("pipeline load", "pipeline replicate"),
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_each_of_its_options_has_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    assert [each.name for each in command.params if not each.help] == []
    result = invoke(*name.split(), "--help")
    assert result.exit_code == 0
    assert [each.opts for each in command.params if not any(option in result.stdout for option in shown(each))] == []


def shown(parameter: Any) -> list[str]:
    return list(parameter.opts) if parameter.param_type_name == "option" else [parameter.metavar]


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_can_print_json(name: str) -> None:
    assert "--json" in {option for each in LEAVES[name].params for option in each.opts}


def test_the_page_has_a_section_for_every_command_and_no_other() -> None:
    titles = re.findall(r"^### lowtide (.+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(titles) == sorted(LEAVES)


@pytest.mark.parametrize("name", LEAVES)
def test_the_section_of_a_command_names_its_arguments_and_options(name: str) -> None:
    text = section(PAGE, f"lowtide {name}")
    options = [each for each in LEAVES[name].params if each.name not in ("json", "help")]
    assert [each.name for each in options if not any(option in text for option in shown(each))] == []
    assert "```console" in text


def test_the_page_has_every_exit_code() -> None:
    codes = {int(row[0].strip("`")) for row in table(section(PAGE, "Exit codes"))}
    assert codes == {0, FAILED, WRONG, ATTENTION, INTERRUPTED, UNREAD, ENDED}
