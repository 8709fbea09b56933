"""The descriptors that this process has open below one directory.

Counting all of a process's descriptors would also count what other tests left for the garbage collector to close.
"""

import os
from pathlib import Path


def open_below(directory: Path) -> list[str]:
    """The open files below a directory, one name for each descriptor, also of files that were removed since."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # the listing's own descriptor, or one that another thread closed meanwhile
            continue
        if target.startswith(f"{directory.resolve()}/"):
            names.append(target)
    return sorted(names)
