"""Stores in memory: no test depends on a disk that keeps anything, and thousands of small stores would mostly wait for
the disk. A kill leaves the files as they are, and power loss is modelled."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30


def keep_files_in_memory() -> None:
    """Put the temporary files of this process, and of those that it starts, in memory, if the machine has a file system
    for that with enough room. A given TMPDIR is kept."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < _ENOUGH:
        return
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # to be looked up again
