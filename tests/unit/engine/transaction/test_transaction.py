"""The life of a transaction: begin, use, end, and every use after the end (I12, P1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lowtide
from lowtide import Isolation
from lowtide.errors import ConflictError, UsageError
from tests.conftest import OpenStore

LEVELS = pytest.mark.parametrize("level", list(Isolation))


def end_by_commit(store: lowtide.Store, level: Isolation) -> lowtide.Transaction:
    tx = store.begin(level)
    tx.keyspace("k").put(b"mine", b"1")
    tx.commit()
    return tx


def end_by_rollback(store: lowtide.Store, level: Isolation) -> lowtide.Transaction:
    tx = store.begin(level)
    tx.rollback()
    return tx


def end_by_conflict(store: lowtide.Store, level: Isolation) -> lowtide.Transaction:
    """At the levels that know no conflicts, an ordinary end."""
    tx = store.begin(level)
    tx.keyspace("k").put(b"x", b"1")
    store.keyspace("k").put(b"x", b"2")
    try:
        tx.commit()
    except ConflictError:
        assert level in (Isolation.SNAPSHOT, Isolation.SERIALIZABLE)
    return tx


USES: dict[str, Callable[[lowtide.Transaction], object]] = {
    "get": lambda tx: tx.keyspace("k").get(b"mine"),
    "put": lambda tx: tx.keyspace("k").put(b"mine", b"2"),
    "delete": lambda tx: tx.keyspace("k").delete(b"mine"),
    "scan": lambda tx: list(tx.keyspace("k").scan()),
    "commit": lambda tx: tx.commit(),
    "rollback": lambda tx: tx.rollback(),
    "savepoint": lambda tx: tx.savepoint(),
    "on_commit": lambda tx: tx.on_commit(print),
}


@LEVELS
@pytest.mark.parametrize("end", [end_by_commit, end_by_rollback, end_by_conflict])
def test_a_transaction_that_has_ended_refuses_everything(
    store: lowtide.Store, level: Isolation, end: Callable[[lowtide.Store, Isolation], lowtide.Transaction]
) -> None:
    tx = end(store, level)
    before = store.stats().last_commit
    for name, use in USES.items():
        if name == "rollback" and "refused" in repr(tx):
            continue  # see the test below
        with pytest.raises(UsageError, match="cannot be used any more"):
            use(tx)
        assert store.stats().last_commit == before, name


@pytest.mark.parametrize("level", [Isolation.SNAPSHOT, Isolation.SERIALIZABLE])
def test_a_rollback_after_a_refused_commit_does_nothing(store: lowtide.Store, level: Isolation) -> None:
    """So ``except: tx.rollback(); raise`` raises the conflict, not an error about the rollback."""
    tx = store.begin(level)
    tx.keyspace("k").put(b"x", b"1")
    store.keyspace("k").put(b"x", b"2")
    with pytest.raises(ConflictError):
        tx.commit()
    for _ in range(2):
        tx.rollback()
    assert "refused" in repr(tx)
    assert store.keyspace("k").get(b"x") == b"2"


def test_it_says_how_it_ended(store: lowtide.Store) -> None:
    level = Isolation.SNAPSHOT
    assert repr(store.begin(level)) == "<transaction at 0, SNAPSHOT, open>"
    assert "committed" in repr(end_by_commit(store, level))
    assert "rolled back" in repr(end_by_rollback(store, level))
    refused = end_by_conflict(store, level)
    assert "refused" in repr(refused)
    with pytest.raises(UsageError, match="was refused"):
        refused.commit()


@LEVELS
def test_a_closed_store_refuses_everything_but_a_rollback(store: lowtide.Store, level: Isolation) -> None:
    store.keyspace("k").put(b"x", b"1")
    tx, other = store.begin(level), store.begin(level)
    other.keyspace("k").put(b"y", b"1")
    store.close()
    for call in (
        lambda: tx.keyspace("k").get(b"x"),
        lambda: list(tx.keyspace("k").scan()),
        lambda: store.begin(level),
        lambda: store.transaction(level),
        lambda: store.run(lambda tx: None, level),
    ):
        with pytest.raises(UsageError, match="closed"):
            call()
    tx.rollback()
    if level is not Isolation.NONE:
        with pytest.raises(UsageError, match="closed"):
            other.commit()


@LEVELS
def test_a_with_statement_commits_at_the_end(store: lowtide.Store, level: Isolation) -> None:
    with store.transaction(level) as tx:
        assert tx.isolation is level
        tx.keyspace("k").put(b"x", b"1")
    assert store.keyspace("k").get(b"x") == b"1"
    assert store.stats().snapshots == []


@pytest.mark.parametrize("level", [level for level in Isolation if level is not Isolation.NONE])
def test_a_with_statement_rolls_back_on_an_error_which_goes_on(store: lowtide.Store, level: Isolation) -> None:
    def fail() -> None:
        with store.transaction(level) as tx:
            tx.keyspace("k").put(b"x", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.keyspace("k").get(b"x") is None
    assert store.stats().snapshots == []


def test_a_with_statement_may_end_its_transaction_itself(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        tx.keyspace("k").put(b"x", b"1")
        tx.rollback()
    with store.transaction() as tx:
        tx.keyspace("k").put(b"y", b"1")
        tx.commit()
    assert dict(store.keyspace("k").scan()) == {b"y": b"1"}


def test_a_with_statement_raises_the_conflict_of_its_commit(store: lowtide.Store) -> None:
    def lose() -> None:
        with store.transaction() as tx:
            tx.keyspace("k").put(b"x", b"1")
            store.keyspace("k").put(b"x", b"2")

    with pytest.raises(ConflictError):
        lose()
    assert store.stats().snapshots == []


@LEVELS
def test_the_timestamp_is_what_it_reads_from_and_the_commit_returns_its_own(
    store: lowtide.Store, level: Isolation
) -> None:
    store.keyspace("k").put(b"x", b"1")
    tx = store.begin(level)
    assert tx.ts == 1
    tx.keyspace("k").put(b"y", b"1")
    assert tx.commit() == 2 == store.stats().last_commit


@LEVELS
def test_a_transaction_that_wrote_nothing_commits_nothing(store: lowtide.Store, level: Isolation) -> None:
    store.keyspace("k").put(b"x", b"1")
    tx = store.begin(level)
    assert tx.keyspace("k").get(b"x") == b"1"
    assert tx.commit() == 1
    assert store.stats().last_commit == 1


@LEVELS
def test_only_the_levels_with_a_fixed_snapshot_hold_one(store: lowtide.Store, level: Isolation) -> None:
    tx = store.begin(level)
    tx.keyspace("k").get(b"x")
    held = [snapshot.where.split(":")[0] for snapshot in store.stats().snapshots]
    assert held == ([__file__] if level in (Isolation.SNAPSHOT, Isolation.SERIALIZABLE) else [])
    tx.rollback()
    assert store.stats().snapshots == []


@LEVELS
def test_every_way_to_begin_names_the_callers_line(store: lowtide.Store, level: Isolation) -> None:
    """Every holder of versions must be named. Below SNAPSHOT the holder is a scan."""
    wheres: list[str] = []

    def look(tx: lowtide.Transaction) -> None:
        tx.keyspace("k").put(b"a", b"")
        entries = tx.keyspace("k").scan()
        next(entries)
        wheres.extend(snapshot.where for snapshot in store.stats().snapshots)

    look(store.begin(level))
    with store.transaction(level) as tx:
        look(tx)
    store.run(look, level)
    assert len(wheres) >= 3
    assert all(where.startswith(__file__) for where in wheres), wheres


def test_run_wants_at_least_one_attempt(store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match="attempts"):
        store.run(lambda tx: None, attempts=0)


def test_run_repeats_only_what_may_succeed_when_repeated(store: lowtide.Store) -> None:
    calls = []

    def fail(tx: lowtide.Transaction) -> None:
        calls.append(tx)
        tx.keyspace("k").put(b"x", b"1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.run(fail)
    assert len(calls) == 1
    assert store.keyspace("k").get(b"x") is None


def test_run_repeats_work_that_itself_raised_a_transient_error(store: lowtide.Store) -> None:
    """For example an expired snapshot: the work is repeated in a new transaction."""
    calls = []

    def work(tx: lowtide.Transaction) -> str:
        calls.append(tx)
        if len(calls) < 3:
            raise lowtide.SnapshotExpired("gone")
        return "done"

    assert store.run(work) == "done"
    assert len({id(tx) for tx in calls}) == 3


def _read_and_put(k: lowtide.Keyspace) -> None:
    k.get(b"there")
    k.put(b"there", b"2")


def _read_absent_and_put(k: lowtide.Keyspace) -> None:
    k.get(b"absent")
    k.put(b"absent", b"2")


def _read_another_and_put(k: lowtide.Keyspace) -> None:
    k.get(b"there")
    k.get(b"absent")
    k.put(b"there", b"2")


def _put_and_read_and_put(k: lowtide.Keyspace) -> None:
    k.put(b"there", b"2")
    k.get(b"there")
    k.put(b"there", b"3")


def _read_and_put_two(k: lowtide.Keyspace) -> None:
    k.put(b"absent", b"2")
    k.get(b"there")
    k.put(b"there", b"3")


def _read_and_delete(k: lowtide.Keyspace) -> None:
    k.get(b"there")
    k.delete(b"there")


@pytest.mark.parametrize("level", [Isolation.READ_COMMITTED, Isolation.SNAPSHOT, Isolation.SERIALIZABLE])
@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (_read_and_put, [("update", b"there", b"1")]),
        (_read_absent_and_put, [("insert", b"absent", None)]),
        (_read_another_and_put, [("update", b"there", b"1")]),
        (_put_and_read_and_put, [("update", b"there", b"1")]),
        (_read_and_put_two, [("insert", b"absent", None), ("update", b"there", b"1")]),
        (_read_and_delete, [("delete", b"there", b"1")]),
    ],
)
def test_a_commit_logs_what_was_there_before_whatever_the_transaction_has_read(
    open_store: OpenStore,
    level: Isolation,
    work: Callable[[lowtide.Keyspace], None],
    expected: list[tuple[str, bytes, bytes | None]],
) -> None:
    store = open_store(before_images=True)
    store.keyspace("k").put(b"there", b"1")
    begun = store.stats().last_commit
    with store.transaction(level) as tx:
        work(tx.keyspace("k"))
    changes = store.changes(since=begun, before=True)
    assert sorted((each.kind, each.key, each.before) for each in changes) == expected
