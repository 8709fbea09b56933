"""The helper process: it answers each request with a response, and its death is distinguished from an error (K3,
K4)."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import lmdb
import pytest

import lowtide
from lowtide.engine.base.codec import encode_row, encode_tombstone
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from lowtide.engine.checkpoint import helper as module
from lowtide.engine.checkpoint.apply import Applied
from lowtide.engine.checkpoint.helper import Helper, HelperLost, HelperRequest, HelperSample, Response, perform
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.errors import CorruptionError, Error
from lowtide.system.messages import receive, send
from tests.unit.engine.base.bases import PREFIX, kept_by, rows_of, tombstones_of

A, B = PREFIX + b"a", PREFIX + b"b"
MAP = 1 << 18


class Files:
    """The files that a helper is given: a base that holds nothing, and the log of a store with a few commits."""

    def __init__(self, path: Path, commits: list[dict[bytes, bytes | None]]) -> None:
        self.path = path
        with lowtide.open(path / "store", durability="relaxed", checkpoint_bytes=1 << 40) as store:
            for commit in commits:
                with store.transaction() as tx:
                    for key, value in commit.items():
                        if value is None:
                            tx.keyspace("fruit").delete(key)
                        else:
                            tx.keyspace("fruit").put(key, value)
            shutil.copytree(path / "store" / "log", path / "log")
        (path / "base").mkdir()
        self.store_id = bytes.fromhex(json.loads((path / "store" / "store.json").read_text())["store"])
        base = Base(path / "base", MAP, create=True)
        base.initialise(self.store_id)
        base.close()

    def request(
        self, upto: int, boundary: int = 0, live: tuple[int, ...] = (), collector: str = "exact", map_size: int = MAP
    ) -> HelperRequest:
        base, log = str(self.path / "base"), str(self.path / "log")
        return HelperRequest(base, map_size, log, self.store_id, boundary, upto, None, collector, live)

    def perform(self, upto: int, live: tuple[int, ...] = (), oldest_writer: int | None = None) -> Response:
        """Make the checkpoint in this process."""
        return perform(self.request(upto, live=live), lambda: HelperSample(live, oldest_writer))

    def have(
        self,
        helper: Helper,
        upto: int,
        boundary: int = 0,
        live: tuple[int, ...] = (),
        collector: str = "exact",
        oldest_writer: int | None = None,
        map_size: int = MAP,
    ) -> Applied:
        """Have the helper make it."""
        horizon = make_horizon(collector, live, upto)
        request = self.request(upto, boundary, live, collector, map_size)
        return helper.checkpoint(request, lambda: (horizon, oldest_writer))

    def base(self) -> Base:
        return Base(self.path / "base", MAP)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, [{b"a": b"a1", b"b": b"b1"}, {b"a": b"a2"}, {b"a": b"a3", b"b": None}])


@pytest.fixture
def helper() -> Iterator[Helper]:
    made = Helper()
    yield made
    made.close()


def check_applied(files: Files) -> None:
    """That the three commits were applied for a reader and a writer at 1."""
    base = files.base()
    assert rows_of(base) == {A: encode_row(3, b"a3"), B: encode_tombstone(3)}
    # No snapshot sees the version at 2, so it is not even read into a chain: the one before it ends where the next one
    # begins.
    assert kept_by(base) == {Interval(1, 3, A): b"a1", Interval(1, 3, B): b"b1"}
    assert tombstones_of(base) == [(3, B)]
    assert base.saved_keyspaces() == [("fruit", PREFIX)]
    assert base.read_boundary() == 3
    base.close()


def test_a_checkpoint_is_made_from_the_log_alone(files: Files) -> None:
    assert files.perform(3, live=(1,), oldest_writer=1) == Response(rows=2, kept=2, cells=[((PREFIX, 1, 1), 2)])
    check_applied(files)


def test_the_helper_makes_the_same_checkpoint(files: Files, helper: Helper) -> None:
    applied = files.have(helper, 3, live=(1,), oldest_writer=1)
    assert applied == Applied(rows=2, kept=2)
    assert applied.cells == {(PREFIX, 1, 1): 2}
    check_applied(files)


def test_who_lives_is_what_the_owner_says_inside_the_transaction(files: Files, helper: Helper) -> None:
    """A snapshot that was opened at a pin after the request was made, and whose pin is gone, is in the answer only."""
    files.perform(1)
    request = files.request(3, boundary=1, live=())
    horizon = make_horizon("exact", (1,), 3)
    assert helper.checkpoint(request, lambda: (horizon, 1)).cells == {(PREFIX, 1, 1): 2}
    check_applied(files)


def test_who_ended_since_the_request_was_made_keeps_nothing(files: Files) -> None:
    files.perform(1)
    response = perform(files.request(3, boundary=1, live=(1,)), lambda: HelperSample((), None))
    assert response == Response(rows=2, kept=0, cells=[])
    base = files.base()
    assert kept_by(base) == {}
    base.close()


def test_a_checkpoint_that_another_process_had_made_does_not_know_what_was_kept(files: Files, helper: Helper) -> None:
    files.perform(3, live=(1,), oldest_writer=1)
    assert files.have(helper, 3, live=(1,)).cells is None


def test_one_helper_serves_one_request_after_the_other(files: Files, helper: Helper) -> None:
    files.have(helper, 1)
    process = helper.process_id
    files.have(helper, 3, boundary=1, live=(1,), oldest_writer=1)
    assert helper.process_id == process
    check_applied(files)


def test_the_helper_follows_the_collector_of_its_owner(files: Files, helper: Helper) -> None:
    files.have(helper, 3, live=(1,), collector="watermark")
    base = files.base()
    assert kept_by(base) == {Interval(1, 2, A): b"a1", Interval(2, 3, A): b"a2", Interval(1, 3, B): b"b1"}
    base.close()


def test_a_full_map_is_the_owners_to_grow(tmp_path: Path, helper: Helper) -> None:
    files = Files(tmp_path, [{b"%d" % number: bytes(3000)} for number in range(200)])
    with pytest.raises(lmdb.MapFullError):
        files.have(helper, 200)
    base = files.base()
    assert rows_of(base) == {}
    assert base.read_boundary() == 0
    base.close()
    assert files.have(helper, 200, map_size=MAP * 16) == Applied(rows=200, kept=0)


def test_an_error_in_the_helper_is_told_and_it_goes_on_serving(files: Files, helper: Helper) -> None:
    with pytest.raises(Error, match=r"CorruptionError.*commit 4 is missing"):
        files.have(helper, 4)
    process = helper.process_id
    files.have(helper, 3, live=(1,), oldest_writer=1)
    assert helper.process_id == process
    check_applied(files)


def test_a_log_that_does_not_reach_far_enough_is_no_checkpoint(files: Files) -> None:
    with pytest.raises(CorruptionError, match="commit 4 is missing"):
        files.perform(4)
    base = files.base()
    assert base.read_boundary() == 0
    base.close()


def test_a_helper_that_died_is_started_again(files: Files, helper: Helper) -> None:
    files.have(helper, 1)
    first = helper.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    assert helper.process_id is None
    files.have(helper, 3, boundary=1, live=(1,), oldest_writer=1)
    assert helper.process_id not in (None, first)
    check_applied(files)


def test_a_helper_that_dies_at_work_is_told_apart_from_one_that_fails(
    files: Files, helper: Helper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller repeats the checkpoint in a thread: LMDB has undone what the helper was in the middle of."""
    files.have(helper, 1)
    process = helper.process_id
    assert process is not None

    def killed(stream: IO[bytes]) -> bytes | None:
        os.kill(process, signal.SIGKILL)
        return receive(stream)

    os.kill(process, signal.SIGSTOP)  # so that it cannot have answered before it is killed
    monkeypatch.setattr(module, "receive", killed)
    with pytest.raises(HelperLost):
        files.have(helper, 3, boundary=1)
    assert helper.process_id is None


def test_a_helper_that_cannot_be_started_is_told_apart_too(helper: Helper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(HelperLost, match="no checkpoint helper could be started"):
        helper.checkpoint(
            HelperRequest("", 0, "", b"", 0, 0, None, "exact", ()), lambda: (make_horizon("exact", (), 0), None)
        )


def test_closing_ends_the_process_and_may_be_repeated(files: Files) -> None:
    helper = Helper()
    files.have(helper, 1)
    process = helper.process_id
    assert process is not None
    helper.close()
    helper.close()
    assert helper.process_id is None
    with pytest.raises(ChildProcessError):
        os.waitpid(process, os.WNOHANG)  # it has been waited for


def test_a_helper_that_was_never_needed_was_never_started() -> None:
    helper = Helper()
    assert helper.process_id is None
    helper.close()


# The line between the two


@pytest.mark.parametrize("message", [b"", b"x", bytes(100_000)])
def test_a_message_survives_the_line(message: bytes) -> None:
    stream = io.BytesIO()
    send(stream, message)
    send(stream, b"next")
    stream.seek(0)
    assert receive(stream) == message
    assert receive(stream) == b"next"
    assert receive(stream) is None


@pytest.mark.parametrize("length", range(1, 4 + 5))
def test_a_message_that_is_cut_short_is_none(length: int) -> None:
    stream = io.BytesIO()
    send(stream, b"hello")
    assert receive(io.BytesIO(stream.getvalue()[:length])) is None
