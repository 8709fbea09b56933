"""What makes two sorted scans equal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lowtide.pipeline.replicate.replica import differences

scans = st.dictionaries(st.binary(max_size=2), st.binary(max_size=1))


@given(scans, scans)
def test_the_differences_make_one_the_other_and_touch_nothing_else(
    wanted: dict[bytes, bytes], found: dict[bytes, bytes]
) -> None:
    made = dict(found)
    for key, value in differences(sorted(wanted.items()), sorted(found.items())):
        assert made.get(key) != value
        if value is None:
            del made[key]
        else:
            made[key] = value
    assert made == wanted
