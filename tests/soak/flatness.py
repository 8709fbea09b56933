"""Memory and disk usage over time: the last quarter is compared with the second. Disk is measured over the whole soak,
memory over the longest life of one owner, since each owner starts from zero.

The first quarter is ignored: caches fill, and spare segments are created. A store that leaks grows with every commit,
so the ratio shows it, however slow the machine is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

MIB = 1 << 20
RATIO = 1.3
"""The largest allowed ratio of the last quarter's median to the second's ..."""
SLACK = {"memory": 8 * MIB, "disk": 24 * MIB}
"""... plus this many bytes: each owner has other random options, and a killed consumer holds log back."""
ENOUGH = 40
"""The minimum number of samples for a verdict."""


@dataclass
class Samples:
    """The measurements in order of time, in bytes. Memory by the number of the owner's life."""

    memory: dict[int, list[int]] = field(default_factory=dict)
    disk: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    what: str
    second: float
    last: float
    flat: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.second / MIB:.1f} MiB in the second quarter, {self.last / MIB:.1f} MiB in the last"


def judge(samples: Samples) -> list[Verdict]:
    """Whether memory and disk are flat; nothing if there are too few samples to say."""
    verdicts = []
    longest = max(samples.memory.values(), key=len, default=[])
    for what, values in (("memory", longest), ("disk", samples.disk)):
        if len(values) < ENOUGH:
            continue
        quarter = len(values) // 4
        second, last = median(values[quarter : 2 * quarter]), median(values[-quarter:])
        verdicts.append(Verdict(what, second, last, last <= RATIO * second + SLACK[what]))
    return verdicts


def anonymous_memory(process_id: int) -> int | None:
    """The private memory of a process, without pages of mapped files; None if it is gone."""
    try:
        lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), None)


def bytes_below(directory: Path) -> int:
    """The blocks that the files occupy: LMDB's file and the segments may be sparse."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:  # removed meanwhile
            continue
    return total
