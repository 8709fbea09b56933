"""Marks: the newest commit of each keyspace, trusted only as far as every checkpoint has maintained them."""

from __future__ import annotations

from collections.abc import Iterator

import lmdb
import pytest

from lowtide.engine.base.environment import Base
from lowtide.engine.base.marks import newest_in, put_marks
from tests.unit.engine.base.bases import STORE_ID, new_base

ONE, TWO, THREE = (bytes([0, 0, 0, number]) for number in (1, 2, 3))


@pytest.fixture
def base() -> Iterator[Base]:
    with new_base() as found:
        yield found


def checkpoint(base: Base, boundary: int, upto: int, newest: dict[bytes, int]) -> None:
    def change(txn: lmdb.Transaction[bytes]) -> None:
        put_marks(base, txn, boundary, upto, newest)
        base.put_boundary(txn, upto)

    base.write(change)


def checkpoint_without_marks(base: Base, upto: int) -> None:
    base.write(lambda txn: base.put_boundary(txn, upto))


def newest(base: Base, *prefixes: bytes) -> list[int | None]:
    return [base.read(lambda txn, prefix=prefix: newest_in(base, txn, prefix)) for prefix in prefixes]  # type: ignore[misc]


def test_a_new_base_knows_that_nothing_changed(base: Base) -> None:
    assert newest(base, ONE) == [0]


def test_a_keyspace_has_the_newest_commit_that_changed_it(base: Base) -> None:
    checkpoint(base, 0, 5, {ONE: 4, TWO: 5})
    checkpoint(base, 5, 9, {TWO: 7})
    assert newest(base, ONE, TWO, THREE) == [4, 7, 0]


def test_a_base_that_had_no_marks_knows_only_what_came_after(base: Base) -> None:
    checkpoint_without_marks(base, 5)
    assert newest(base, ONE, TWO) == [None, None]
    checkpoint(base, 5, 9, {TWO: 7})
    assert newest(base, ONE, TWO) == [5, 7]


def test_marks_that_somebody_did_not_keep_are_not_believed_and_begin_anew(base: Base) -> None:
    checkpoint(base, 0, 5, {ONE: 4, TWO: 5, THREE: 1})
    checkpoint_without_marks(base, 6)
    assert newest(base, ONE, TWO, THREE) == [None, None, None]
    checkpoint(base, 6, 8, {TWO: 8})
    assert newest(base, ONE, TWO, THREE) == [6, 8, 6]
    assert base.store_id() == STORE_ID


def test_the_last_marks_of_the_table_are_forgotten_too(base: Base) -> None:
    last = b"\xff\xff\xff\xfc"
    checkpoint(base, 0, 5, {last: 4})
    checkpoint_without_marks(base, 6)
    checkpoint(base, 6, 7, {})
    assert newest(base, last, ONE) == [6, 6]
