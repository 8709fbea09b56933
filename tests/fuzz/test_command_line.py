"""Arguments of arbitrary text: a documented exit code, and never a traceback."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lowtide.cli.words import bytes_of, clean, moment, shown
from lowtide.errors import UsageError
from lowtide.system.quantities import seconds_of, size, span
from tests.crash.stores import Content
from tests.fuzz.guard import ours
from tests.fuzz.mutation import mutated
from tests.fuzz.profile import pure, whole_store
from tests.fuzz.stores import copy_of
from tests.unit.cli.commands import invoke

COMMANDS = ["stats", "snapshots", "pins", "pin", "unpin", "changes", "consumers", "verify", "checkpoint", "gc"]
COMMANDS += ["backup", "compact", "metrics", "inspect key", "inspect segment", "inspect base"]
OPTIONS = ["--json", "--since", "--until", "--keyspace", "--limit", "--before", "--ttl", "--at", "--renew", "--remove"]
OPTIONS += ["--reset", "--to", "--timeout", "--version", "-n", "-k", "--nothing", "--help", "--"]

_words = st.one_of(
    st.sampled_from(["STORE", "nightly", "mirror", "fruit", "1h30m", "90", "0", "-1", "1e18", "9" * 30, "9" * 400]),
    st.sampled_from(["hex:zz", "hex:00ff", "base64:====", "text:", "٣", "1e400", "inf", "nan", "", "\0", "\udc80"]),
    st.text(st.characters(exclude_characters="/."), max_size=12),
    st.sampled_from(OPTIONS),
)


def _nearly(text: bytes) -> st.SearchStrategy[str]:
    return mutated(text).map(lambda data: data.decode(errors="surrogateescape"))


@whole_store
@given(command=st.sampled_from(COMMANDS), words=st.lists(_words, max_size=5), on=st.booleans())
def test_a_command_line_of_any_words_ends_in_an_exit_code(
    template: tuple[Path, list[Content]], command: str, words: list[str], on: bool
) -> None:
    with copy_of(template[0]) as path, contextlib.chdir(path.parent):
        arguments = [*command.split(), *(["STORE"] if on else []), *words]
        result = invoke(*(str(path) if each == "STORE" else each for each in arguments))
        assert result.exit_code in (0, 1, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), arguments


@pure
@given(
    st.one_of(
        _nearly(b"1h30m"),
        st.text(),
        st.sampled_from(["9" * 400, "1e999", "nan", "9" * 5000 + "w"]),
    )
)
def test_a_span_of_any_text_is_a_number_of_seconds_or_refused(text: str) -> None:
    found = ours(len(text), lambda: seconds_of(text))
    assert isinstance(found, UsageError) or found == found


@pure
@given(
    st.one_of(
        st.text(st.characters(), max_size=40),
        _nearly(b"hex:00ff"),
    )
)
def test_a_key_of_any_text_is_bytes_or_refused(text: str) -> None:
    found = ours(len(text), lambda: bytes_of(text))
    assert isinstance(found, bytes | UsageError)
    if isinstance(found, bytes):
        assert bytes_of(shown(found)) == found
    assert clean(text).isprintable()


@pure
@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e12, 1e12)))
def test_every_number_can_be_shown(number: float) -> None:
    assert span(number)
    assert size(number)
    assert moment(number)
