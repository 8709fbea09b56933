"""Tests of columns run twice: with the fast path for uniform documents, however few, and without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowtide.columnar import uniform


@pytest.fixture(scope="module", params=[1, 1 << 30], ids=["quick", "general"])
def least(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of how many documents the quick way is taken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uniform, "LEAST", request.param)
        yield request.param
