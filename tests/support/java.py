"""Tells whether Spark can run here. Without Java, tests that need it are skipped with the reason."""

from __future__ import annotations

from functools import cache

import pytest

NO_JAVA = "Spark cannot run here"


@cache
def needs_java() -> pytest.MarkDecorator:
    """Marks a test that needs Spark."""
    from lowtide.errors import UsageError
    from lowtide.spark.session import check_java

    missing = ""
    try:
        check_java()
    except UsageError as error:
        missing = f"{NO_JAVA}: {error}"
    return pytest.mark.skipif(bool(missing), reason=missing)
