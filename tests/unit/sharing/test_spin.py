"""Waiting for the answer to a commit: by polling first, for as long as that pays."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from lowtide.sharing import spin as module
from lowtide.sharing.connection import Connection
from lowtide.sharing.spin import Spin
from tests.crash.stores import wait_until
from tests.support.patience import PATIENCE


class Scripted(Connection):
    """A connection whose answers come soon or late, and which notes how they were waited for."""

    def __init__(self, *, soon: bool) -> None:
        self.soon = soon
        self.looked = self.slept = 0

    def receive_now(self) -> bytes | None:
        self.looked += 1
        return b"answer" if self.soon else None

    def receive(self) -> bytes | None:
        self.slept += 1
        return b"answer"


def spins(spin: Spin, connection: Scripted, commits: int) -> list[int]:
    """The commits whose answer was polled for."""
    found = []
    for number in range(commits):
        connection.looked = 0
        assert spin.receive(connection) == b"answer"
        if connection.looked:
            found.append(number)
    return found


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, and its other end."""
    here, there = socket.socketpair()
    with here, there:
        yield Connection(here, 1000), there


@pytest.fixture
def spin(monkeypatch: pytest.MonkeyPatch) -> Spin:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return Spin()


def test_an_answer_that_comes_soon_is_found_without_sleep(spin: Spin) -> None:
    connection = Scripted(soon=True)
    assert spins(spin, connection, 3) == [0, 1, 2]
    assert connection.slept == 0


def test_after_one_that_comes_late_more_and_more_of_the_next_are_slept_for(spin: Spin) -> None:
    connection = Scripted(soon=False)
    assert spins(spin, connection, 15) == [0, 2, 6, 14]
    assert connection.slept == 15


def test_it_is_never_given_up(spin: Spin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SKIPPED", 3)
    assert spins(spin, Scripted(soon=False), 20) == [0, 2, 6, 10, 14, 18]


def test_after_answers_that_come_soon_fewer_are_slept_for(spin: Spin) -> None:
    assert spins(spin, Scripted(soon=False), 7) == [0, 2, 6]
    assert spins(spin, Scripted(soon=True), 16) == [7, 11, 13, 14, 15]


def test_a_message_that_comes_in_parts_is_received_whole(spin: Spin, ends: tuple[Connection, socket.socket]) -> None:
    connection, there = ends
    there.sendall(b"\x08\x00\x00\x00half")
    rest = threading.Timer(0.01, there.sendall, (b"half",))
    rest.start()
    assert spin.receive(connection) == b"halfhalf"
    rest.join()


def test_the_end_of_the_owner_is_noticed(spin: Spin, ends: tuple[Connection, socket.socket]) -> None:
    ends[1].close()
    assert spin.receive(ends[0]) is None


def test_on_one_core_it_sleeps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert spins(Spin(), Scripted(soon=True), 3) == []


class Slept(Scripted):
    """A connection that is slept on until an event happens."""

    def __init__(self, until: threading.Event, *, soon: bool) -> None:
        super().__init__(soon=soon)
        self.until = until
        self.asleep = threading.Event()

    def receive(self) -> bytes | None:
        self.asleep.set()
        return b"answer" if self.until.wait(PATIENCE) else None


def test_no_thread_spins_while_several_wait(spin: Spin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST", PATIENCE)
    answered = threading.Event()
    first = Slept(answered, soon=False)
    thread = threading.Thread(target=spin.receive, args=(first,))
    thread.start()
    wait_until(lambda: first.looked > 0)
    assert spins(spin, Slept(first.asleep, soon=True), 1) == [], "it sleeps until the first one does"
    assert spins(spin, Scripted(soon=True), 3) == []
    answered.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert spins(spin, Scripted(soon=True), 3) == [0, 1, 2], "it was not in vain"
