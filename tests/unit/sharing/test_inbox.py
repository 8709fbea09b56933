"""The owner's inbox: any thread that commits takes the requests of other processes. No request is lost or executed
twice, even if that thread is interrupted."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.engine.log.frame import encode_payload, identified
from lowtide.engine.transaction.commit import Committer
from lowtide.engine.transaction.request import Request
from lowtide.sharing import inbox as module
from lowtide.sharing.answer import COMMIT, Answer, Ask
from lowtide.sharing.commit_message import CommitMessage, Lease
from lowtide.sharing.inbox import Inbox
from lowtide.sharing.joined import Joined
from lowtide.sharing.joined_commits import JoinedCommits
from lowtide.sharing.service import socket_address
from lowtide.store import backend_of
from lowtide.store.owned import OwnedStore
from tests.crash.stores import wait_until
from tests.support.patience import PATIENCE


class Pair:
    """An owner, and a store of the same process that has joined it and has committed, so that its connection is in the
    inbox."""

    def __init__(self, owner: lowtide.Store, joined: lowtide.Store) -> None:
        self.owner, self.joined = owner, joined
        parts, follower = backend_of(owner), backend_of(joined)
        assert isinstance(parts, OwnedStore)
        assert isinstance(follower, Joined)
        self.parts, self.follower = parts, follower
        assert parts._service._inbox is not None
        self.inbox: Inbox = parts._service._inbox
        self.put(b"warm")
        wait_until(lambda: len(self.inbox._connections) == 1)

    def put(self, key: bytes) -> None:
        self.joined.keyspace("k").put(key, b"1")

    def connect(self) -> None:
        """Have another connection of the joined store in the inbox."""
        first = self.follower._channel._committing.pop()
        self.put(b"warm")
        wait_until(lambda: len(self.inbox._connections) == 2)
        self.follower._channel._committing.append(first)

    def sending(self, *keys: bytes) -> list[threading.Thread]:
        """Threads that have sent a commit of each key, which has arrived, and wait for the answers."""
        threads = [threading.Thread(target=self.put, args=(key,), daemon=True) for key in keys]
        for each in threads:
            each.start()
        wait_until(lambda: len(self.follower._members.waiting) == len(keys))
        epoll = self.inbox._epoll
        assert epoll is not None
        wait_until(lambda: len(epoll.poll(0)) == len(keys))
        return threads

    def commits_of(self, *keys: bytes) -> list[tuple[int, bytes]]:
        return [(change.ts, change.key) for change in self.owner.changes() if change.key in keys]


@pytest.fixture
def pair(tmp_path: Any) -> Iterator[Pair]:
    with lowtide.open(tmp_path / "store") as owner:
        owner.keyspace("k").put(b"a", b"1")
        with lowtide.open(owner.path) as joined:
            yield Pair(owner, joined)


@pytest.fixture
def unattended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting thread leaves what arrives to the owner's threads."""
    monkeypatch.setattr(Inbox, "_serve", lambda self, arrived: False)


def ended(threads: list[threading.Thread]) -> None:
    for each in threads:
        each.join(PATIENCE)
        assert not each.is_alive()


@pytest.mark.usefixtures("unattended")
class TestACommittingThread:
    def test_takes_what_has_arrived_into_its_group(self, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
        groups: list[int] = []
        commit = Committer._commit

        def counted(self: Committer, group: list[Request]) -> None:
            groups.append(len(group))
            commit(self, group)

        monkeypatch.setattr(Committer, "_commit", counted)
        sent = pair.sending(b"x")
        pair.owner.keyspace("k").put(b"own", b"1")
        ended(sent)
        assert groups == [2]
        (first, _), (second, _) = pair.commits_of(b"x", b"own")
        assert second == first + 1

    @pytest.mark.parametrize("name", ["taken", "answer_to"])
    def test_is_not_concerned_by_an_error_of_another_one(
        self, pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
    ) -> None:
        original = getattr(JoinedCommits, name)

        def failing(*arguments: Any) -> None:
            monkeypatch.setattr(JoinedCommits, name, original)
            raise MemoryError

        sent = pair.sending(b"x")
        monkeypatch.setattr(JoinedCommits, name, failing)
        if name == "taken":
            monkeypatch.setattr(module, "refusal", failing)
        pair.owner.keyspace("k").put(b"own", b"1")
        monkeypatch.undo()
        ended(sent)
        assert len(pair.commits_of(b"x")) == 1
        assert "sent again" in caplog.text
        assert not pair.inbox._turn.locked()

    @pytest.mark.parametrize("where", ["before it is taken", "after it is taken", "in the queue", "at the answer"])
    def test_that_is_interrupted_leaves_no_commit_behind(
        self, pair: Pair, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        """The connection is closed, and the commit is sent again."""
        owned, name = {
            "before it is taken": (JoinedCommits, "taken"),
            "after it is taken": (JoinedCommits, "taken"),
            "in the queue": (Committer, "_wait"),
            "at the answer": (JoinedCommits, "answer_to"),
        }[where]
        original: Callable[..., Any] = getattr(owned, name)

        def interrupted(*arguments: Any) -> None:
            monkeypatch.setattr(owned, name, original)
            if where == "after it is taken":
                original(*arguments)
            raise KeyboardInterrupt

        sent = pair.sending(b"x")
        monkeypatch.setattr(owned, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            pair.owner.keyspace("k").put(b"own", b"1")
        ended(sent)
        assert len(pair.commits_of(b"x")) == 1
        assert not pair.inbox._turn.locked()
        assert not pair.parts.committer._queue
        pair.owner.keyspace("k").put(b"own", b"2")
        assert pair.joined.keyspace("k").get(b"own") == b"2"


@pytest.mark.usefixtures("unattended")
def test_a_thread_that_is_interrupted_while_another_one_leads_leaves_the_outcome_to_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader has taken the request; what is sent again waits for it, and finds it in the log."""
    leading, go_on = threading.Event(), threading.Event()
    commit, wait = Committer._commit, Committer._wait

    def slow(self: Committer, group: list[Request]) -> None:
        leading.set()
        assert go_on.wait(PATIENCE)
        commit(self, group)

    def interrupted(self: Committer, request: Request, before: list[Request]) -> None:
        monkeypatch.setattr(Committer, "_wait", wait)
        leader = threading.Thread(target=pair.owner.keyspace("k").put, args=(b"other", b"1"))
        leader.start()
        leaders.append(leader)
        assert leading.wait(PATIENCE)
        raise KeyboardInterrupt

    def settled(self: Committer, request: Request) -> None:
        settling.set()
        settle(self, request)

    leaders: list[threading.Thread] = []
    settle, settling = Committer.settle, threading.Event()
    sent = pair.sending(b"x")
    monkeypatch.setattr(Committer, "_commit", slow)
    monkeypatch.setattr(Committer, "_wait", interrupted)
    monkeypatch.setattr(Committer, "settle", settled)
    with pytest.raises(KeyboardInterrupt):
        pair.owner.keyspace("k").put(b"own", b"1")
    try:
        assert settling.wait(PATIENCE)
    finally:
        go_on.set()
    ended(sent + leaders)
    assert len(pair.commits_of(b"x")) == len(pair.commits_of(b"other")) == 1


@pytest.mark.usefixtures("unattended")
def test_requests_that_one_thread_brings_have_one_gate(pair: Pair) -> None:
    """When the lock is given up, the gate of the first in the queue is opened: it must wake that thread."""
    pair.connect()
    sent = pair.sending(b"x", b"y")
    with pair.parts.committer.exclusive():
        own = threading.Thread(target=pair.owner.keyspace("k").put, args=(b"own", b"1"), daemon=True)
        own.start()
        queue = pair.parts.committer._queue
        wait_until(lambda: len(queue) == 3 and queue[2].gate is not None)
        assert len({id(each.gate) for each in queue}) == 1
    ended([*sent, own])
    assert len(pair.commits_of(b"x", b"y", b"own")) == 3


def test_another_request_on_the_connection_of_commits_is_answered_too(pair: Pair) -> None:
    connection = pair.follower._channel._committing[0]
    for _ in range(3):
        assert connection.ask("hello", timeout=PATIENCE)
        pair.put(b"x")
    assert len(pair.commits_of(b"x")) == 3


def test_a_commit_that_does_not_arrive_at_once_holds_up_no_other(pair: Pair) -> None:
    connection = pair.follower._channel._committing.popleft()
    for data in (b"\x05", b"\x00\x00\x00half", b"!"):
        connection._socket.sendall(data)
        pair.put(b"x")
    assert connection._socket.recv(1) == b"", "it was malformed"


@pytest.mark.parametrize("size", [1, module._LARGE - 100, module._LARGE, 5 * module._LARGE])
def test_a_commit_of_any_size_is_taken(pair: Pair, size: int) -> None:
    pair.joined.keyspace("k").put(b"large", b"v" * size)
    pair.joined.keyspace("k").put(b"small", b"v")
    assert pair.owner.keyspace("k").get(b"large") == b"v" * size


def commit_message(number: int) -> bytes:
    """A commit under a lease that does not exist."""
    identity = number.to_bytes(16)
    payload = identified(encode_payload(1.0, {b"\x00\x00\x00\x01key": b"value"}, None, [None], False), identity)
    message = CommitMessage(identity, payload, 0, True, True, Lease("joined 1-0", b"12345678"))
    ask = msgspec.msgpack.encode(Ask(COMMIT, msgspec.Raw(msgspec.msgpack.encode(message))))
    return struct.pack("<I", len(ask)) + ask


def test_commits_that_are_sent_together_are_answered_one_after_the_other(pair: Pair) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(socket_address(pair.owner.path))
        with connection.makefile("rb") as answers:
            for first, count in ((0, 1), (1, 5), (6, 2)):
                connection.sendall(b"".join(commit_message(first + number) for number in range(count)))
                for _ in range(count):
                    (length,) = struct.unpack("<I", answers.read(4))
                    answer = msgspec.msgpack.decode(answers.read(length), type=Answer)
                    assert answer.error is not None
                    assert answer.error[0] == "SnapshotExpired"


def test_one_that_takes_no_answer_holds_up_no_other(pair: Pair) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(socket_address(pair.owner.path))
        connection.settimeout(0.2)
        many = b"".join(map(commit_message, range(20_000)))
        with pytest.raises(TimeoutError):
            connection.sendall(many)
        pair.put(b"x")
    pair.put(b"x")
    assert len(pair.commits_of(b"x")) == 2
