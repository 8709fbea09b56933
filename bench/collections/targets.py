"""What the comparison of documents promises, and why a peer is ahead where it is.

Ahead of every store on every line, but for the scan that decodes all documents: there at least nine tenths of sqlite3.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.collections.workloads import WORKLOADS, Workload
from bench.figures import BASE, Figures, Summary
from bench.section import Finding

SCANS: dict[str, dict[str, float]] = {"find-all": {"sqlite3": 0.9}}
"""The lines where not every store is to be behind: what is promised there, by store."""

_CACHED = "its documents are Python objects in its cache; nothing is read or decoded"
_SYNC = "both wait for one sync of a short write; what is left is the transaction and its indexes, in Python here"

# Why a peer is ahead: by workload and peer, or by workload alone.
REASONS: dict[tuple[str, str], str] = {
    ("find-id", ""): "its find is a few calls into C; here it is a few Python functions around one read",
    ("find-id", "mongita"): "it answers from a dict of all documents that it has read, without a transaction",
    ("find-index", ""): "its find is a few calls into C; here it is a few Python functions around two reads",
    ("find-range", ""): "it steps through its index in C; here every entry is met in Python",
    ("find-range", "ZODB"): _CACHED,
    ("find-all", ""): "it steps through its rows in C; here every document is met in Python",
    ("find-all", "ZODB"): _CACHED,
    ("group", ""): "it reads the two fields in C and makes no documents; here all are decoded and grouped in Python",
    ("group", "ZODB"): _CACHED,
    ("update", ""): _SYNC,
    ("update-unsynced", ""): "with no disk to wait for, the transaction and its versions in Python cost more",
    ("insert", ""): _SYNC,
    ("insert-unsynced", ""): "with no disk to wait for, the transaction and its indexes in Python cost more",
    ("insert-many", ""): "it makes its index entries in C; here each is made, looked up and logged in Python",
    ("insert-many-unsynced", ""): "it makes its index entries in C; here each is made, looked up and logged in Python",
    ("insert-many-unsynced", "TinyDB"): "it has no index to keep, and writes its file once for all of them",
    ("insert-many-unsynced", "mongita"): "it appends to a file, without a transaction, and writes its index once",
}


@dataclass(frozen=True)
class Ahead:
    """A line where a peer is faster."""

    workload: Workload
    peer: str
    ratio: Summary
    why: str


def floor(workload: str, peer: str) -> float | None:
    """What Lowtide's ratio to this store is to be at least; None where nothing is promised."""
    return SCANS[workload].get(peer) if workload in SCANS else 1.0


def reason(workload: str, peer: str) -> str:
    return REASONS.get((workload, peer)) or REASONS[workload, ""]


def peers_ahead(figures: Figures) -> list[Ahead]:
    """Every line on which the median of the ratios is below one."""
    found = []
    for workload in WORKLOADS:
        for peer in figures.peers():
            ratio = None if peer == BASE else figures.ratio(workload.name, peer)
            if ratio is not None and ratio.middle < 1:
                found.append(Ahead(workload, peer, ratio, reason(workload.name, peer)))
    return found


def findings(figures: Figures) -> list[Finding]:
    """Every target that was measured, with its outcome."""
    found = []
    for workload in WORKLOADS:
        ratios = {
            peer: ratio.middle
            for peer in figures.peers()
            if peer != BASE and (ratio := figures.ratio(workload.name, peer)) is not None
        }
        if workload.name in SCANS:
            found += _particular(workload, ratios)
        elif ratios:
            found.append(_every_peer(workload, ratios))
    return found


def _particular(workload: Workload, ratios: dict[str, float]) -> list[Finding]:
    return [
        Finding(
            f"{workload.title}: at least {wanted:.1f}x {peer}",
            f"{ratios[peer]:.2f}x",
            ratios[peer] >= wanted,
            "" if ratios[peer] >= 1 else reason(workload.name, peer),
        )
        for peer, wanted in SCANS[workload.name].items()
        if peer in ratios
    ]


def _every_peer(workload: Workload, ratios: dict[str, float]) -> Finding:
    closest = min(ratios, key=lambda peer: ratios[peer])
    behind = [peer for peer in ratios if ratios[peer] < 1]
    return Finding(
        f"{workload.title}: ahead of every store",
        f"{ratios[closest]:.2f}x {closest}, the closest",
        not behind,
        "; ".join(f"{peer}: {reason(workload.name, peer)}" for peer in behind),
    )
