"""Whether a store lies where no process can write: on a file system that is read-only itself.

There a reader needs no lock, and can have none: nothing changes under it. A *mount* that is read-only is another
matter. The same files may be writable elsewhere, and then a reader that is not in LMDB's table of readers could have
its pages written over.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lowtide.errors import Error

MOUNTS = Path("/proc/self/mountinfo")


def is_read_only(directory: Path) -> bool:
    """Whether the file system of ``directory`` is read-only for every process; False where that is not known."""
    try:
        if not os.statvfs(directory).f_flag & os.ST_RDONLY:
            return False
        device = os.stat(directory).st_dev
        return says_read_only(MOUNTS.read_text(errors="replace"), os.major(device), os.minor(device))
    except OSError:
        return False


def not_writable(directory: Path, error: OSError) -> Error | None:
    """What to raise in place of ``error``, if that says that this process may not write; None otherwise."""
    if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
        return None
    return Error(
        f"{directory} cannot be written here ({error.strerror}), and another process may write it: a reader must "
        "enter itself in LMDB's table of readers, or what it reads may be written over. Make it writable for this "
        "process, or read a backup"
    )


def says_read_only(mounts: str, major: int, minor: int) -> bool:
    """Whether the list of ``mounts`` has the device, and says that the file system itself is read-only: the options of
    the file system are the last word of a line, those of the mount the sixth."""
    for line in mounts.splitlines():
        mount, _, system = line.partition(" - ")
        words = mount.split()
        if len(words) > 2 and words[2] == f"{major}:{minor}" and system:
            return "ro" in system.split()[-1].split(",")
    return False
