"""Bytes, times and sizes as the command line writes and reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide
from lowtide.cli.words import as_json, bytes_of, clean, moment, plain, shortened, shown
from lowtide.system.quantities import seconds_of, size, span


@given(st.one_of(st.binary(max_size=20), st.text(max_size=20).map(str.encode)))
def test_what_is_shown_can_be_given_back(data: bytes) -> None:
    text = shown(data)
    assert bytes_of(text) == data
    assert text.isprintable()


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("apple", b"apple"),
        ("häuser", "häuser".encode()),
        ("hex:00ff", b"\x00\xff"),
        ("base64:AP8=", b"\x00\xff"),
        ("text:hex:00", b"hex:00"),
        ("a:b", b"a:b"),
        ("", b""),
        ("\udcff", b"\xff"),
    ],
)
def test_a_key_is_given_as_text_or_hex_or_base64(text: str, data: bytes) -> None:
    assert bytes_of(text) == data


@pytest.mark.parametrize("text", ["hex:0", "hex:zz", "base64:A", "base64:!!!!"])
def test_a_key_that_does_not_hold_what_it_says_is_refused(text: str) -> None:
    with pytest.raises(lowtide.UsageError, match="cannot be decoded"):
        bytes_of(text)


@pytest.mark.parametrize(
    ("data", "form"), [(b"red", "red"), (b"\x00\xff", {"base64": "AP8="}), (b"a\nb", {"base64": "YQpi"}), (b"", "")]
)
def test_json_has_printable_bytes_as_text_and_others_as_base64(data: bytes, form: object) -> None:
    assert plain(data) == form
    assert json.loads(as_json({"value": data})) == {"value": form}


def test_json_has_paths_and_nothing_else_that_is_strange() -> None:
    assert json.loads(as_json([Path("a"), "\udcff"])) == ["a", "\udcff"]
    with pytest.raises(TypeError, match="no form in JSON"):
        as_json(object())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        ("1h30m", 5400),
        ("2d", 172800),
        ("1 h", 3600),
        ("1W", 604800),
        ("250ms", 0.25),
    ],
)
def test_a_span_of_time_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1x", "h", "1h later", "inf", "nan"])
def test_what_is_no_span_of_time_is_refused(text: str) -> None:
    with pytest.raises(lowtide.UsageError, match="not a duration"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.25, "250 ms"),
        (12.34, "12.3 s"),
        (61, "1 min 1 s"),
        (3600, "1 h 0 min"),
        (90000, "1 d 1 h"),
        (-5, "-5.0 s"),
    ],
)
def test_a_span_is_written_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(("count", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB")])
def test_a_size_is_written_in_a_unit_that_fits(count: int, words: str) -> None:
    assert size(count) == words


def test_a_moment_is_in_utc() -> None:
    assert moment(0) == "1970-01-01 00:00:00Z"


def test_nothing_that_steers_a_terminal_reaches_it() -> None:
    assert clean("a\x1b[31mb\udcff\n") == "a\\x1b[31mb\\udcff\\n"
    assert clean("Grüße") == "Grüße"


def test_a_long_text_is_shortened_to_the_width() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"
