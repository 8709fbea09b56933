"""The names of the anomalies, and a finding: an anomaly with the transactions that show it.

The names are those of Adya's thesis (G0 to G2), of Elle, and of docs/isolation.md. A cycle has the most specific name
that fits: a lost update is a G-single, a long fork a G-nonadjacent, a write skew a G2-item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lowtide.audit.orders import Read, Write

MEANINGS = {
    "garbage": "a read shows what no transaction wrote",
    "duplicate": "what was written once is there twice, or two writes claim one version",
    "future-read": "a transaction saw what it wrote only later",
    "internal": "a transaction does not see its own writes",
    "incompatible-order": "two reads of a list contradict each other about its order",
    "G0": "dirty write: transactions overwrite each other in a cycle",
    "G1a": "aborted read: a committed transaction saw a write that was rolled back",
    "G1b": "intermediate read: a transaction saw a write that its writer had overwritten before it committed",
    "G1c": "circular information flow: transactions saw or overwrote each other in a cycle",
    "observed-vanishes": "a transaction saw a commit, and afterwards a state from before it",
    "fractured-scan": "one scan shows two instants",
    "stale-read": "a transaction did not see what was committed before it began",
    "lost-update": "two transactions read the same version of a key and both wrote the key",
    "G-single": "read skew: a transaction saw one state here and a later one there",
    "long-fork": "two readers saw two commits in different orders",
    "G-nonadjacent": "a cycle of missed writes, no two of them one after the other",
    "write-skew": "two transactions each missed what the other one wrote",
    "G2-item": "a cycle in which transactions missed each other's writes",
    "G2": "the same, through a key that a scan did not find",
}
"""The anomalies that the checker searches for, most severe first."""

Kind = Literal["ww", "wr", "rw", "session", "time"]
"""Why one transaction comes before another.

ww: it wrote a version that the other overwrote. wr: it wrote a version that the other read. rw: it read a version that
the other overwrote. session: it came first in the same session. time: it ended before the other began.
"""

ORDER = ("session", "time")


class Edge(NamedTuple):
    """A dependency: transaction ``source`` comes before ``target``, and why."""

    source: int
    target: int
    kind: Kind
    key: str = ""
    earlier: Write | Read | None = None
    later: Write | Read | None = None

    @property
    def phantom(self) -> bool:
        """Whether the missed write is to a key that a scan did not find."""
        return self.kind == "rw" and isinstance(self.earlier, Read) and self.earlier.phantom


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly and its witness: a cycle of edges, or a description if there is no cycle."""

    name: str
    transactions: tuple[int, ...]
    keys: tuple[str, ...]
    words: str = ""
    edges: tuple[Edge, ...] = ()


def cycle(edges: Sequence[Edge]) -> Finding:
    """Return the finding for a cycle, rotated to begin with its lowest transaction, so that the form is unique."""
    first = min(range(len(edges)), key=lambda index: edges[index].source)
    turned = (*edges[first:], *edges[:first])
    keys = dict.fromkeys(edge.key for edge in turned if edge.key)
    return Finding(name_of(turned), tuple(edge.source for edge in turned), tuple(keys), edges=turned)


def name_of(edges: Sequence[Edge]) -> str:
    """Return the most specific name of a cycle. Session and time edges count as dependencies."""
    kinds = [edge.kind for edge in edges]
    missed = [index for index, kind in enumerate(kinds) if kind == "rw"]
    if not missed:
        return "G1c" if "wr" in kinds else "G0"
    if all(kinds[index - 1] in ORDER for index in missed):
        return "stale-read"
    if len(missed) == 1:
        same_key = len({edge.key for edge in edges}) == 1
        return "lost-update" if same_key and set(kinds) == {"ww", "rw"} else "G-single"
    if not any(kinds[index - 1] == "rw" for index in missed):
        return "long-fork" if kinds in (["wr", "rw"] * 2, ["rw", "wr"] * 2) else "G-nonadjacent"
    if len(edges) == 2:
        return "write-skew"
    return "G2" if any(edge.phantom for edge in edges) else "G2-item"
