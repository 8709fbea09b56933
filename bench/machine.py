"""What a figure depends on besides the code: the machine, the libraries and the disk, and the usage of a process."""

import os
import platform
import sqlite3
import subprocess
from importlib import metadata
from pathlib import Path

import lmdb
import msgspec

import lowtide
from bench import collections, peers, rdf

_REPOSITORY = Path(__file__).resolve().parent.parent
_MEMORY_FILESYSTEMS = {"tmpfs", "ramfs", "devtmpfs"}
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the filesystem's own block size


class MemoryFilesystem(Exception):
    """The directory is in memory, where a sync costs nothing. Choose one on a disk with --directory."""


def filesystem(directory: Path) -> str:
    """The type of the filesystem that holds the directory, such as ``ext4``."""
    best, kind = "", "unknown"
    place = str(directory.resolve())
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount_point, type_name, *_ = line.split()
        root = mount_point.rstrip("/") + "/"
        # A later mount on the same point hides the earlier one, hence >=.
        if (place + "/").startswith(root) and len(root) >= len(best):
            best, kind = root, type_name
    return kind


def require_disk(directory: Path) -> None:
    kind = filesystem(directory)
    if kind in _MEMORY_FILESYSTEMS:
        raise MemoryFilesystem(f"{directory} is on {kind}: a sync there costs nothing. Use --directory with a disk.")


def resident_bytes() -> int:
    """The memory this process occupies now, shared pages (LMDB's map) included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def disk_bytes(directory: Path) -> int:
    """What the files below the directory occupy; holes of sparse files do not count."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * _BLOCK_BYTES
            except FileNotFoundError:  # a log segment that was removed between listing and asking
                continue
    return total


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=_REPOSITORY, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        label, _, value = line.partition(":")
        if label.strip() == "model name":
            return value.strip()
    return platform.machine()


def describe(directory: Path) -> dict[str, object]:
    """The environment of a run, without names and paths that identify the host."""
    changes = _git("status", "--porcelain")
    return {
        "commit": _git("rev-parse", "--verify", "--quiet", "HEAD"),
        "uncommitted_changes": None if changes is None else bool(changes),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES,
        "kernel": platform.release(),
        "filesystem": filesystem(directory),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "lowtide": lowtide.__version__,
        "sqlite3": sqlite3.sqlite_version,
        "py-lmdb": _version_of("lmdb"),
        "lmdb": ".".join(str(part) for part in lmdb.version()),
        "msgspec": msgspec.__version__,
        "peers": peers.versions() | collections.versions() | rdf.STORES.versions(),
    }
