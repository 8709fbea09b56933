"""Tables on a terminal, columns in a pipe, and no control characters of the data in either."""

from __future__ import annotations

import pytest

from lowtide.cli.output import Output, aligned, busy, measured


def test_columns_are_below_each_other_and_numbers_to_the_right() -> None:
    assert aligned([["name", "n"], ["a", "10"], ["long one", "5"]], [False, True]) == [
        "name       n",
        "a         10",
        "long one   5",
    ]


def test_a_pipe_gets_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Output(False).table(("name", "count"), [("a[red]\x1b", 1)], none="nothing")
    assert capsys.readouterr().out == "name        count\na[red]\\x1b      1\n"


def test_a_terminal_gets_a_table_with_colours_and_no_markup_from_cells(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    Output(False).table(("name", "count"), [("a[red]\x1b", 1)], none="nothing")
    out = capsys.readouterr().out
    assert "\x1b[1m" in out
    assert "a[red]\\x1b" in out


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Output(False).table(("name",), [], none="no pins")
    assert capsys.readouterr().out == "no pins\n"


def test_words_keep_their_lines_and_lose_what_steers(capsys: pytest.CaptureFixture[str]) -> None:
    Output(False).say("one\ntwo\x1b[2J")
    assert capsys.readouterr().out == "one\ntwo\\x1b[2J\n"


def test_progress_is_not_for_pipes(capsys: pytest.CaptureFixture[str]) -> None:
    with busy("verifying") as tell:
        tell("a step")
    assert capsys.readouterr() == ("", "")


def test_progress_says_what_is_done_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with busy("verifying [x]") as tell:
        tell("a step")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "verifying [x]: a step" in captured.err
    assert "0:00:0" in captured.err


def test_a_bar_is_not_for_pipes(capsys: pytest.CaptureFixture[str]) -> None:
    with measured("importing", 100) as advance:
        advance(50, "5 documents")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("total", "shown"), [(100, "50 %"), (None, "5 documents")])
def test_a_bar_says_how_much_is_done_on_a_terminal(
    total: int | None, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with measured("importing [x]", total) as advance:
        advance(50, "5 documents")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "importing [x]: 5 documents" in captured.err
    assert shown in captured.err
    assert ("50 %" in captured.err) == (total is not None)
