"""Memory and disk over time: the last quarter beside the second, of the disk over the whole soak, of memory over the
longest life of an owner, since it begins anew with each.

The first quarter is left out: caches fill, spare segments are made. A store that leaks grows with every commit, so it
shows as a ratio, however slow the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

MIB = 1 << 20
RATIO = 1.3
"""How much higher the last quarter's median may be than the second's ..."""
SLACK = {"memory": 8 * MIB, "disk": 24 * MIB}
"""... and how much besides: options are drawn anew for each owner, and a consumer that was killed holds log back."""
ENOUGH = 40
"""Samples that a verdict needs."""


@dataclass
class Samples:
    """What was measured, in the order of time; bytes. Memory by the owner's life, the number of which is the key."""

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
    """What a process has of its own, without the pages of mapped files; None if it is gone."""
    try:
        lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), None)


def bytes_below(directory: Path) -> int:
    """The blocks that the files take: LMDB's file and the segments may have holes."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:  # removed meanwhile
            continue
    return total
