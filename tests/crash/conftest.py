"""The tests of this folder open stores by the thousand, and each opening syncs: they do it in memory if they can.

Nothing here depends on a disk that keeps anything: a kill is a copy of the files, or a process that dies, and power
loss is modelled.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
_ENOUGH = 512 << 20


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """As pytest's own, in memory if the machine has a file system for that."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < _ENOUGH:
        yield tmp_path
        return
    directory = Path(tempfile.mkdtemp(prefix="lowtide-crash-", dir=MEMORY))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
