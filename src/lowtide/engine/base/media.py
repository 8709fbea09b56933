"""Whether a store is on a read-only file system, where no process can write.

A reader needs no lock there, because nothing changes, and cannot take one. A read-only *mount* is different. The same
files may be writable through another mount, and then a reader that is not in LMDB's table of readers could have its
pages overwritten.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lowtide.errors import Error

MOUNTS = Path("/proc/self/mountinfo")


def is_read_only(directory: Path) -> bool:
    """Whether the file system of ``directory`` is read-only for every process; False if that is not known."""
    try:
        if not os.statvfs(directory).f_flag & os.ST_RDONLY:
            return False
        device = os.stat(directory).st_dev
        return says_read_only(MOUNTS.read_text(errors="replace"), os.major(device), os.minor(device))
    except OSError:
        return False


def not_writable(directory: Path, error: OSError) -> Error | None:
    """The error to raise instead of ``error``, if that means that this process may not write; None otherwise."""
    if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
        return None
    return Error(
        f"this process cannot write to {directory} ({error.strerror}), but another process may: a reader must register "
        "in LMDB's table of readers, or the pages it reads may be overwritten. Make the directory writable for this "
        "process, or read a backup"
    )


def says_read_only(mounts: str, major: int, minor: int) -> bool:
    """Whether the list of ``mounts`` shows the device with a file system that is read-only itself. The options of the
    file system are the last word of a line, and those of the mount are the sixth."""
    for line in mounts.splitlines():
        mount, _, system = line.partition(" - ")
        words = mount.split()
        if len(words) > 2 and words[2] == f"{major}:{minor}" and system:
            return "ro" in system.split()[-1].split(",")
    return False
