"""The shell: commands one after another, from a pipe and at a prompt."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from lowtide.cli.shell import history_file
from tests.unit.cli.commands import document, invoke
from tests.unit.cli.test_processes import terminal


def script(store: Path, text: str, *more: str) -> tuple[int, str, str]:
    result = invoke("shell", store, *more, input=text)
    return result.exit_code, result.stdout, result.stderr


def test_a_script_runs_its_commands_without_the_name_of_the_store(unowned: Path) -> None:
    code, out, err = script(unowned, "# a comment\n\nunpin nightly\npins\ninspect key fruit pear\nexit\nnonsense\n")
    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "removed the pin 'nightly'",
        "no pins",
        "key pear of keyspace fruit: 1 version",
    ]


def test_a_script_prints_json_if_all_of_it_is_to(unowned: Path) -> None:
    code, out, _ = script(unowned, "stats\npins --json\n", "--json")
    assert code == 0
    assert [sorted(json.loads(line))[-2:] for line in out.splitlines()] == [
        ["version_bytes", "versions"],
        ["path", "pins"],
    ]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("unpin nobody\npins\n", 1, "lowtide: there is no pin 'nobody'"),
        ("nonsense\npins\n", 2, "lowtide: there is no command 'nonsense' in the shell; help lists"),
        ("pins --nonsense\npins\n", 2, "--nonsense"),
        ("shell\npins\n", 2, "there is no command 'shell'"),
        ("audit x\npins\n", 2, "there is no command 'audit'"),
        ('inspect key fruit {"a"\npins\n', 2, "lowtide: the command is incomplete"),
        ("inspect key fruit [}\npins\n", 2, "closes a bracket that is not open"),
        ("import users -\npins\n", 2, "the shell reads its commands from standard input"),
        ("help nonsense\npins\n", 2, "there is no command 'nonsense'"),
    ],
)
def test_a_script_ends_with_the_first_command_that_fails(text: str, code: int, words: str, unowned: Path) -> None:
    found, out, err = script(unowned, text)
    assert found == code
    assert "nightly" not in out
    assert words in err
    assert "Traceback" not in err


def test_help_lists_the_commands_that_the_shell_has_and_explains_each(unowned: Path) -> None:
    code, out, _ = script(unowned, "help\nhelp inspect key\n")
    assert code == 0
    assert "  unpin " in out
    assert "  audit " not in out
    assert "Usage: inspect key" in out


def test_there_is_no_shell_without_a_store(tmp_path: Path) -> None:
    result = invoke("shell", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_the_history_is_for_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = history_file()
    assert path == tmp_path / "state" / "lowtide" / "history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    history_file()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    assert history_file() is None


def test_at_a_prompt_an_error_does_not_end_it_and_what_was_typed_is_kept(
    unowned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with terminal("shell", unowned) as shown:
        shown.see("help lists the commands")
        shown.see("store>")
        shown.press("unpin nobody\r")
        shown.see("there is no pin 'nobody'")
        shown.see("store>")
        shown.press("unp\t")
        shown.see("unpin")
        shown.press(" nightly\r")
        shown.see("removed the pin 'nightly'")
        shown.see("store>")
        shown.press("\x04")
        assert shown.end() == 0
    assert document(invoke("pins", unowned, "--json"))["pins"] == []
    assert "+unpin nightly\n" in (tmp_path / "state" / "lowtide" / "history").read_text()
