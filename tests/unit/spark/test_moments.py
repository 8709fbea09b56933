"""Columns of timestamps: the same bytes as msgspec writes for each datetime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lowtide.spark.moments import EPOCH, encoded_moments

FIRST = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
LAST = (datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC) - EPOCH) // timedelta(microseconds=1)
SECOND = 1_000_000
BORDERS = [
    each + off
    for each in (FIRST, -SECOND, 0, SECOND * (2**32 - 1), SECOND * 2**32, SECOND * (2**34 - 1), SECOND * 2**34, LAST)
    for off in (-SECOND, -1, 0, 1, SECOND)
    if FIRST <= each + off <= LAST
]


@given(st.lists(st.integers(FIRST, LAST) | st.integers(-2000, 2**33).map(lambda each: each * SECOND)))
@example(BORDERS)
@example([])
@example([0, SECOND, SECOND * 5])
def test_the_bytes_are_those_of_datetimes(micros: list[int]) -> None:
    encoded = [bytes(each) for each in encoded_moments(np.array(micros, np.int64))]
    assert encoded == [msgspec.msgpack.encode(EPOCH + timedelta(microseconds=each)) for each in micros]


@pytest.mark.parametrize("micros", [FIRST - 1, LAST + 1, -(2**63), 2**63 - 1])
def test_a_time_that_no_datetime_has_is_refused(micros: int) -> None:
    with pytest.raises(OverflowError):
        encoded_moments(np.array([0, micros], np.int64))
