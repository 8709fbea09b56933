"""Stores in memory: nothing that a test checks depends on a disk that keeps anything, and thousands of small stores
would mostly wait for one. A kill leaves the files as they are, and power loss is modelled."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30


def keep_files_in_memory() -> None:
    """Temporary files of this process, and of those that it starts, lie in memory, if the machine has a file system for
    that with room enough. A TMPDIR that is given stays."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < _ENOUGH:
        return
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # to be looked up again
