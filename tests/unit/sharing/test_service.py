"""The owner's service: requests are answered, whatever else comes in over the socket."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.sharing import service as module
from lowtide.sharing.owner import Owner, OwnerGone, OwnerSilent, reach_owner
from lowtide.sharing.service import Service, is_trusted, socket_address
from tests.support.patience import PATIENCE


def fail(kind: str) -> None:
    raise {
        "expired": lowtide.SnapshotExpired("gone"),
        "usage": lowtide.UsageError("wrong"),
        "disk": lowtide.DiskFull("full"),
        "locked": lowtide.StoreLocked(Path("there"), "him"),
        "bug": ZeroDivisionError("oh"),
        "system": FileNotFoundError(2, "no such thing"),
    }[kind]


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


@pytest.fixture
def arrived() -> threading.Event:
    return threading.Event()


@pytest.fixture
def service(tmp_path: Path, gate: threading.Event, arrived: threading.Event) -> Iterator[Service]:
    def wait() -> str:
        arrived.set()
        assert gate.wait(PATIENCE)
        return "waited"

    service = Service(
        tmp_path,
        {"echo": lambda value=None: value, "fail": fail, "wait": wait, "odd": lambda: {"path": Path("x"), "set": {1}}},
    )
    service.start()
    yield service
    gate.set()
    service.close()


def reach(path: Path) -> Owner:
    owner = reach_owner(path)
    assert owner is not None
    return owner


def raw(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE)
    connection.connect(socket_address(path))
    return connection


@pytest.mark.usefixtures("service")
class TestAsking:
    @pytest.mark.parametrize("value", [None, 5, "text", b"\x00\xff", [1, [2]], {"a": {"b": None}}, "x" * 500_000])
    def test_plain_values_go_there_and_back(self, tmp_path: Path, value: Any) -> None:
        with reach(tmp_path) as owner:
            assert owner.ask("echo", value=value) == value
            assert owner.ask("echo") is None

    def test_what_is_not_plain_comes_as_words(self, tmp_path: Path) -> None:
        with reach(tmp_path) as owner:
            assert owner.ask("odd") == {"path": "x", "set": [1]}

    @pytest.mark.parametrize(
        ("kind", "error", "words"),
        [
            ("expired", lowtide.SnapshotExpired, "gone"),
            ("usage", lowtide.UsageError, "wrong"),
            ("disk", lowtide.DiskFull, "full"),
            ("locked", lowtide.Error, "held by him"),
            ("bug", lowtide.Error, "the request failed in the owner"),
            ("system", lowtide.Error, "no such thing"),
        ],
    )
    def test_an_error_comes_in_its_own_words_and_the_next_question_is_answered(
        self, tmp_path: Path, kind: str, error: type[Exception], words: str
    ) -> None:
        with reach(tmp_path) as owner:
            with pytest.raises(error, match=words):
                owner.ask("fail", kind=kind)
            assert owner.ask("echo", value=1) == 1

    def test_an_unknown_operation_and_wrong_arguments_are_refused(self, tmp_path: Path) -> None:
        with reach(tmp_path) as owner:
            with pytest.raises(lowtide.UsageError, match="does not know 'destroy'"):
                owner.ask("destroy")
            with pytest.raises(lowtide.Error, match="unexpected"):
                owner.ask("echo", strange=1)
            assert owner.ask("echo", value=1) == 1

    def test_one_who_waits_keeps_nobody_else_waiting(
        self, tmp_path: Path, gate: threading.Event, arrived: threading.Event
    ) -> None:
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(reach(tmp_path).ask("wait")))
        thread.start()
        assert arrived.wait(PATIENCE)
        with reach(tmp_path) as owner:
            assert owner.ask("echo", value=1) == 1
        gate.set()
        thread.join(PATIENCE)
        assert answers == ["waited"]

    def test_an_owner_that_does_not_answer_in_time_is_silent_not_gone(self, tmp_path: Path) -> None:
        with reach(tmp_path) as owner, pytest.raises(OwnerSilent, match=r"within 0\.01 seconds"):
            owner.ask("wait", timeout=0.01)

    def test_one_who_hangs_up_on_its_own_question_is_told_that_the_owner_is_gone(
        self, tmp_path: Path, arrived: threading.Event
    ) -> None:
        owner = reach(tmp_path)
        told: list[BaseException] = []

        def ask() -> None:
            try:
                owner.ask("wait")
            except OwnerGone as error:
                told.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert arrived.wait(PATIENCE)
        owner.hang_up()
        thread.join(PATIENCE)
        assert len(told) == 1


@pytest.mark.usefixtures("service")
class TestHostile:
    @pytest.mark.parametrize(
        "message", [b"", b"garbage", b"\xc1", msgspec.msgpack.encode(5), msgspec.msgpack.encode(["echo", 5])]
    )
    def test_a_message_that_means_nothing_ends_its_connection_only(self, tmp_path: Path, message: bytes) -> None:
        with raw(tmp_path) as connection:
            connection.sendall(struct.pack("<I", len(message)) + message)
            assert connection.recv(4) == b"", "the other end hung up"
        with reach(tmp_path) as owner:
            assert owner.ask("echo", value=1) == 1

    def test_a_length_that_is_a_lie_costs_no_memory_and_ends_the_connection(self, tmp_path: Path) -> None:
        tracemalloc.start()
        try:
            with raw(tmp_path) as connection:
                connection.sendall(b"\xff\xff\xff\xff")
                assert connection.recv(1) == b"", "the other end hung up"
            assert tracemalloc.get_traced_memory()[1] < 10 << 20
        finally:
            tracemalloc.stop()
        with reach(tmp_path) as owner:
            assert owner.ask("echo", value=1) == 1

    @pytest.mark.parametrize("part", [b"\x05", b"\x05\x00\x00\x00", b"\x05\x00\x00\x00abc"])
    def test_one_who_leaves_in_mid_message_is_forgotten(self, tmp_path: Path, service: Service, part: bytes) -> None:
        with raw(tmp_path) as connection:
            connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        assert service._connections == set()

    def test_one_who_leaves_before_the_answer_harms_nobody(
        self, tmp_path: Path, gate: threading.Event, arrived: threading.Event
    ) -> None:
        with raw(tmp_path) as connection:
            message = msgspec.msgpack.encode(["wait", {}])
            connection.sendall(struct.pack("<I", len(message)) + message)
            assert arrived.wait(PATIENCE)
        gate.set()
        with reach(tmp_path) as owner:
            assert owner.ask("echo", value=1) == 1

    def test_another_user_s_process_is_refused_by_either_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who the other end is, the system says; here, what we ourselves are."""
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        monkeypatch.setattr(module, "is_trusted", lambda _: False)
        assert reach_owner(tmp_path) is None or os.getuid() == 0
        with raw(tmp_path) as connection:
            assert connection.recv(1) == b"", "hung up without a word"


def test_the_same_user_is_trusted_and_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert is_trusted(one)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert is_trusted(one) == (os.getuid() == 0)


def test_nobody_is_reached_where_nobody_listens(tmp_path: Path) -> None:
    assert reach_owner(tmp_path) is None
    assert reach_owner(tmp_path / "missing") is None


def test_the_end_of_the_owner_ends_every_connection_and_frees_the_address(
    tmp_path: Path, service: Service, gate: threading.Event, arrived: threading.Event
) -> None:
    idle, busy = reach(tmp_path), reach(tmp_path)
    told: list[BaseException] = []

    def ask() -> None:
        try:
            busy.ask("wait")
        except OwnerGone as error:
            told.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert arrived.wait(PATIENCE)
    service.close()
    thread.join(PATIENCE)
    assert len(told) == 1
    with pytest.raises(OwnerGone):
        idle.ask("echo", timeout=PATIENCE)
    assert reach_owner(tmp_path) is None
    service.close()


def test_the_next_owner_is_reached_however_soon_it_comes(tmp_path: Path) -> None:
    """The address is free only when the thread that listened has noticed."""
    for number in range(200):
        service = Service(tmp_path, {"number": lambda number=number: number})
        service.start()
        with reach(tmp_path) as owner:
            assert owner.ask("number") == number
        service.close()


def test_an_address_that_stays_taken_leaves_the_owner_without_ears_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    first, second = Service(tmp_path, {}), Service(tmp_path, {})
    first.start()
    second.start()
    assert "cannot reach" in caplog.text
    second.close()
    assert reach_owner(tmp_path) is not None
    first.close()


def test_a_forked_child_keeps_no_copy_of_the_sockets(tmp_path: Path, service: Service) -> None:
    """Else the parent's end would go unnoticed for as long as the child lives."""
    connection = reach(tmp_path)
    assert connection.ask("echo", value=1) == 1
    to_child, from_parent = os.pipe()
    ready, tell = os.pipe()
    process = os.fork()
    if process == 0:
        service.abandon()
        os.close(from_parent)
        os.write(tell, b"x")
        os.read(to_child, 1)
        os._exit(0)
    os.close(tell)
    assert os.read(ready, 1) == b"x"
    assert connection.ask("echo", value=2) == 2
    service.close()
    with pytest.raises(OwnerGone):
        connection.ask("echo", timeout=PATIENCE)
    assert reach_owner(tmp_path) is None
    os.close(from_parent)
    os.waitpid(process, 0)
    for each in (to_child, ready):
        os.close(each)


# What may fail for a while


def test_descriptors_that_run_out_for_a_while_do_not_make_the_owner_deaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, failures = socket.socket.accept, [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED]

    def accept_later(listener: socket.socket) -> Any:
        if failures:
            raise OSError(failures.pop(), "for a while")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", accept_later)
    service = Service(tmp_path, {"echo": lambda value: value})
    service.start()
    try:
        with reach(tmp_path) as owner:
            assert owner.ask("echo", value=1, timeout=PATIENCE) == 1
        assert not failures
    finally:
        service.close()


@pytest.mark.usefixtures("service")
def test_nor_does_a_thread_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")]

    def start_later(thread: threading.Thread) -> None:
        if failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_later)
    with reach(tmp_path) as owner, pytest.raises(OwnerGone):
        owner.ask("echo", timeout=PATIENCE)
    with reach(tmp_path) as owner:
        assert owner.ask("echo", value=1, timeout=PATIENCE) == 1
