"""Savepoints against a model: a stack of copies of the buffer (P3)."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import lowtide
from lowtide.errors import UsageError

KEYS = [b"a", b"b", b"c"]

Script = list["tuple[str, object]"]

statements = st.tuples(st.just("put"), st.tuples(st.sampled_from(KEYS), st.binary(max_size=1))) | st.tuples(
    st.just("delete"), st.sampled_from(KEYS)
)
scripts: st.SearchStrategy[Script] = st.recursive(
    st.lists(statements, max_size=4),
    lambda inner: st.lists(
        statements
        | st.tuples(st.just("release"), inner)
        | st.tuples(st.just("fail"), inner)
        | st.tuples(st.just("rollback"), inner),
        max_size=5,
    ),
    max_leaves=8,
)


class Mishap(Exception):
    """What goes wrong inside a savepoint."""


def play(tx: lowtide.Transaction, model: dict[bytes, bytes], script: Script) -> dict[bytes, bytes]:
    """Do what ``script`` says, and return what must then be seen."""
    keyspace = tx.keyspace("k")
    for verb, argument in script:
        if verb == "put":
            assert isinstance(argument, tuple)
            keyspace.put(*argument)
            model = {**model, argument[0]: argument[1]}
        elif verb == "delete":
            assert isinstance(argument, bytes)
            keyspace.delete(argument)
            model = {key: value for key, value in model.items() if key != argument}
        else:
            assert isinstance(argument, list)
            model = play_inside(tx, model, verb, argument)
        assert dict(keyspace.scan()) == model
    return model


def play_inside(tx: lowtide.Transaction, model: dict[bytes, bytes], how: str, inner: Script) -> dict[bytes, bytes]:
    if how == "fail":
        try:
            with tx.savepoint():
                play(tx, model, inner)
                raise Mishap
        except Mishap:
            return model
    with tx.savepoint() as savepoint:
        after = play(tx, model, inner)
        if how == "rollback":
            savepoint.rollback()
            return play(tx, model, [("put", (b"a", b"again"))])
        return after


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=scripts)
def test_nested_savepoints_do_what_a_stack_of_copies_would(store: lowtide.Store, script: Script) -> None:
    with store.transaction() as tx:
        for key in KEYS:
            tx.keyspace("k").delete(key)
        tx.keyspace("k").put(b"b", b"base")
    with store.transaction() as tx:
        model = play(tx, {b"b": b"base"}, script)
        assert {key: value for key in KEYS if (value := tx.keyspace("k").get(key)) is not None} == model
    assert dict(store.keyspace("k").scan()) == model


def test_a_savepoint_that_has_ended_cannot_be_rolled_back(store: lowtide.Store) -> None:
    """What was written in it belongs to the transaction, or to an outer one, which must not lose it."""
    with store.transaction() as tx:
        unused = tx.savepoint()
        with tx.savepoint():
            with tx.savepoint() as inner:
                tx.keyspace("k").put(b"a", b"1")
            for ended in (inner, unused):
                with pytest.raises(UsageError, match="savepoint"):
                    ended.rollback()
        with pytest.raises(UsageError, match="savepoint"):
            inner.rollback()
    assert store.keyspace("k").get(b"a") == b"1"


def test_an_outer_savepoint_cannot_be_rolled_back_from_within_an_inner_one(store: lowtide.Store) -> None:
    """What the inner one undoes is counted from where it began: the ground must not go from under it."""
    with store.transaction() as tx:
        keyspace = tx.keyspace("k")
        with tx.savepoint() as outer:
            keyspace.put(b"a", b"outer")
            with tx.savepoint() as inner:
                keyspace.put(b"a", b"inner")
                with pytest.raises(UsageError, match="inside this one is still open"):
                    outer.rollback()
                inner.rollback()
                assert keyspace.get(b"a") == b"outer"
            outer.rollback()
            assert keyspace.get(b"a") is None
    assert list(store.keyspace("k").scan()) == []


def test_a_transaction_may_end_inside_a_savepoint(store: lowtide.Store) -> None:
    """The savepoint then has nothing left to undo; the error goes on."""
    tx = store.begin()
    try:
        with tx.savepoint():
            tx.keyspace("k").put(b"a", b"1")
            tx.commit()
            raise Mishap
    except Mishap:
        assert store.keyspace("k").get(b"a") == b"1"
    with pytest.raises(UsageError):
        tx.savepoint()


def test_without_savepoints_nothing_is_noted_for_undoing(store: lowtide.Store) -> None:
    """A large transaction must not pay for what it does not use, also not after a savepoint has ended."""
    with store.transaction() as tx:
        tx.keyspace("k").put(b"a", b"1")
        assert tx._tx.innermost is None
        with tx.savepoint():
            tx.keyspace("k").put(b"a", b"2")
        tx.keyspace("k").put(b"a", b"3")
        assert tx._tx.innermost is None
