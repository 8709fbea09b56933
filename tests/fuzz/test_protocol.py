"""What is sent to an owner, and what an owner answers: both ends fail only with errors of Lowtide.

After any bytes the owner still answers the next valid request.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide
from lowtide.engine.log.frame import encode_payload, identified
from lowtide.errors import Error
from lowtide.sharing.answer import COMMIT, Answer, Ask
from lowtide.sharing.commit_message import CommitMessage, Guarded, Lease, SentReads
from lowtide.sharing.owner import Owner, reach_owner
from lowtide.sharing.service import socket_address
from lowtide.system.messages import UNDECODABLE
from tests.fuzz.guard import ours
from tests.fuzz.mutation import mutated
from tests.fuzz.profile import with_files
from tests.fuzz.stores import QUIET, make
from tests.support.patience import PATIENCE
from tests.unit.engine.base.bases import temporary_directory

_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 63), (1 << 64) - 1),
        st.floats(),
        st.text(max_size=5),
        st.binary(max_size=5),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_seconds = st.sampled_from([0, -1, "1", [], -1e300])
_nowhere = st.one_of(st.integers(), st.none(), st.just("\0"), st.just("n" * 5000))
_asks = st.one_of(
    st.builds(Ask, st.sampled_from(["hello", "stats", "metrics", "collect", "checkpoint", "pins_changed", "verify"])),
    st.builds(Ask, st.text(max_size=8), st.dictionaries(st.text(max_size=5), _values, max_size=3)),
    st.builds(Ask, st.just("inspect_key"), st.fixed_dictionaries({"keyspace": _values, "key": _values})),
    st.builds(
        Ask,
        st.just("wait"),
        st.fixed_dictionaries({"after": _values, "seconds": _seconds}),
    ),
    st.builds(
        Ask,
        st.just("backup"),
        st.fixed_dictionaries({"dest": _nowhere}),
    ),
).map(msgspec.msgpack.encode)
HELLO = msgspec.msgpack.encode(Ask("hello"))


def framed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


@pytest.fixture(scope="module")
def owned() -> Iterator[Path]:
    """A store that this process owns."""
    with temporary_directory() as directory:
        make(directory / "store")
        with lowtide.open(directory / "store", **QUIET):
            yield directory / "store"


def says_hello(path: Path) -> bool:
    owner = reach_owner(path)
    assert owner is not None
    with owner:
        return bool(owner.ask("hello", timeout=PATIENCE) == os.getpid())


def is_well_formed(message: bytes) -> bool:
    """Whether it is an operation with arguments."""
    try:
        ask = msgspec.msgpack.decode(message, type=Ask)
        msgspec.msgpack.decode(ask.arguments, type=dict[str, Any])
    except (*UNDECODABLE, ValueError):
        return False
    return True


def answers_to(path: Path, data: bytes) -> bytes:
    """All that the owner sends to a client that sends only ``data``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(socket_address(path))
        found = b""
        with contextlib.suppress(ConnectionError):  # it may close the connection while the client is still sending
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(1 << 16):
                found += piece
        return found


@with_files
@given(messages=st.lists(st.one_of(_asks, mutated(HELLO), st.binary(max_size=40)), min_size=1, max_size=4))
def test_every_message_is_answered_until_one_is_malformed(owned: Path, messages: list[bytes]) -> None:
    found = answers_to(owned, b"".join(map(framed, messages)))
    for _ in itertools.takewhile(is_well_formed, messages):
        (length,) = struct.unpack_from("<I", found)
        answer = msgspec.msgpack.decode(found[4 : 4 + length], type=Answer)
        assert answer.error is None or answer.value is None
        assert answer.error is None or "the request failed in the owner" not in answer.error[1], "a bug"
        found = found[4 + length :]
    assert found == b""
    assert says_hello(owned)


@with_files
@given(
    data=st.one_of(
        mutated(framed(HELLO) * 2), st.binary(max_size=64), st.just(b"\xff" * 12), st.just(framed(b"\x91" * 5000))
    )
)
def test_bytes_that_are_no_messages_leave_the_owner_as_it_was(owned: Path, data: bytes) -> None:
    answers_to(owned, data)
    assert says_hello(owned)


def commit_message(**changed: Any) -> bytes:
    """A commit as a joined process sends it."""
    identity = bytes(range(16))
    payload = identified(encode_payload(1.0, {b"\x00\x00\x00\x01key": b"value"}, None, [None], False), identity)
    fields: dict[str, Any] = {
        "identity": identity,
        "payload": payload,
        "seen": 0,
        "durably": True,
        "first_wins": True,
        "lease": Lease("joined 1-0", b"12345678"),
        "reads": SentReads({b"\x00\x00\x00\x01other"}, [(b"\x00\x00\x00\x01", None)]),
        "guards": Guarded({b"\x00\x00\x00\x01guarded": 0}, [(b"\x00\x00\x00\x01", None, 0)]),
    }
    message = CommitMessage(**{**fields, **changed})
    return msgspec.msgpack.encode(Ask(COMMIT, msgspec.Raw(msgspec.msgpack.encode(message))))


@with_files
@given(
    message=st.one_of(
        mutated(commit_message()),
        st.builds(lambda seen: commit_message(seen=seen), st.integers(0, 1 << 40)),
        st.builds(lambda payload: commit_message(payload=payload), st.binary(max_size=80)),
        st.builds(lambda since: commit_message(unanswered=since), st.integers(0, 1 << 40)),
        st.builds(lambda identity: commit_message(identity=identity), st.binary(max_size=20)),
    )
)
def test_a_commit_of_any_content_commits_nothing_and_leaves_the_owner_as_it_was(owned: Path, message: bytes) -> None:
    """Its lease does not exist, or what it writes to."""
    before = read_published(owned)
    answers_to(owned, framed(message))
    assert says_hello(owned)
    assert read_published(owned) == before


def read_published(path: Path) -> bytes:
    return (path / "published").read_bytes()


_answers = st.one_of(
    mutated(framed(msgspec.msgpack.encode(Answer(7)))),
    mutated(framed(msgspec.msgpack.encode(Answer(None, ("UsageError", "words"))))),
    st.builds(lambda value: framed(msgspec.msgpack.encode(value)), _values),
    st.builds(
        lambda *error: framed(msgspec.msgpack.encode(Answer(None, error))), st.text(max_size=9), st.text(max_size=9)
    ),
    st.just(b"\xff\xff\xff\xff" + b"x" * 100),
    st.just(framed(b"\x91" * 5000)),
)


@with_files
@given(data=_answers)
def test_an_answer_of_any_bytes_is_a_value_or_an_error_of_ours(data: bytes) -> None:
    here, there = socket.socketpair()

    def answer() -> None:
        with there:
            there.recv(1 << 16)
            with contextlib.suppress(OSError):
                there.sendall(data)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with Owner(Path("store"), here) as owner:
            found: Any | Error = ours(len(data), lambda: owner.ask("hello", timeout=PATIENCE))
    finally:
        thread.join()
    assert isinstance(found, Error) or len(data) > 4
