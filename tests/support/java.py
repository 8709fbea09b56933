"""Whether Spark can run here: what needs it is skipped, with the reason, where there is no Java."""

from __future__ import annotations

import pytest

from lowtide.errors import UsageError
from lowtide.spark.session import check_java


def _missing() -> str:
    try:
        check_java()
    except UsageError as error:
        return str(error)
    return ""


needs_java = pytest.mark.skipif(bool(_missing()), reason=_missing())
