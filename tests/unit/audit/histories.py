"""Short functions to write histories by hand, and for each anomaly the smallest history that shows it."""

from __future__ import annotations

from typing import Any

from lowtide import Isolation
from lowtide.audit import History, Report, audit

Rows = list[dict[str, Any]]


def r(key: str, value: Any = None, **more: Any) -> dict[str, Any]:
    """A read of a value."""
    return {"op": "read", "key": key, "value": value, **more}


def v(key: str, version: int) -> dict[str, Any]:
    """A read of a version."""
    return {"op": "read", "key": key, "version": version}


def w(key: str, value: Any, **more: Any) -> dict[str, Any]:
    """A write."""
    return {"op": "write", "key": key, "value": value, **more}


def a(key: str, value: Any) -> dict[str, Any]:
    """An append."""
    return {"op": "append", "key": key, "value": value}


def s(low: str | None, high: str | None, **values: Any) -> dict[str, Any]:
    """A scan."""
    return {"op": "scan", "low": low, "high": high, "values": values}


def tx(
    name: int | str, *operations: dict[str, Any], end: str = "commit", version: int | None = None, **more: Any
) -> Rows:
    """The rows of a transaction; ``more``: session, turn, begun and ended. ``end`` may be "" for an unknown one."""
    begin = {"session": more.get("session"), "turn": more.get("turn"), "time": more.get("begun")}
    rows = [{"op": "begin", **begin}, *operations]
    if end:
        rows.append({"op": end, "version": version, "time": more.get("ended")})
    return [{"tx": name, "index": index, **row} for index, row in enumerate(rows)]


def report(*transactions: Rows, level: Isolation | str = Isolation.SERIALIZABLE) -> Report:
    return audit(History.of(row for rows in transactions for row in rows), level)


def found(*transactions: Rows) -> list[str]:
    """The names of what is found."""
    return report(*transactions).names


SETUP = tx(100, w("x", 0), w("y", 0), version=1)

SMALLEST: dict[str, list[Rows]] = {
    "garbage": [tx(1, r("x", 7)), tx(2, w("x", 8), version=1)],
    "duplicate": [tx(1, a("x", 1)), tx(2, r("x", [1, 1]))],
    "future-read": [tx(1, r("x", [1]), a("x", 1))],
    "internal": [tx(1, w("x", 1), r("x", None), version=1)],
    "incompatible-order": [tx(1, a("x", 1)), tx(2, a("x", 2)), tx(3, r("x", [1, 2])), tx(4, r("x", [2]))],
    "G0": [
        tx(1, w("x", 1, version=1), w("y", 1, version=4)),
        tx(2, w("x", 2, version=2), w("y", 2, version=3)),
    ],
    "G1a": [tx(1, w("x", 1), end="abort"), tx(2, r("x", 1))],
    "G1b": [tx(1, a("x", 1), a("x", 2)), tx(2, r("x", [1]))],
    "G1c": [tx(1, w("x", 1), r("y", 2), version=1), tx(2, w("y", 2), r("x", 1), version=2)],
    "observed-vanishes": [SETUP, tx(1, w("x", 1), w("y", 1), version=2), tx(2, r("x", 1), r("y", 0))],
    "fractured-scan": [SETUP, tx(1, w("x", 1), w("y", 1), version=2), tx(2, s("x", "z", x=0, y=1))],
    "stale-read": [SETUP, tx(1, w("x", 1), version=2, begun=1, ended=2), tx(2, r("x", 0), begun=3, ended=4)],
    "lost-update": [SETUP, tx(1, r("x", 0), w("x", 1), version=2), tx(2, r("x", 0), w("x", 2), version=3)],
    "G-single": [SETUP, tx(1, w("x", 1), w("y", 1), version=2), tx(2, r("x", 0), r("y", 1))],
    "long-fork": [
        SETUP,
        tx(1, w("x", 1), version=2),
        tx(2, w("y", 2), version=3),
        tx(3, r("x", 1), r("y", 0)),
        tx(4, r("y", 2), r("x", 0)),
    ],
    "G-nonadjacent": [
        # T1 overwrites what T4 missed, T2 depends on it and misses T3, on whom T4 depends.
        SETUP,
        tx(1, w("x", 1), w("z", 1), version=2),
        tx(2, w("z", 2), r("y", 0), version=3),
        tx(3, w("y", 3), w("u", 3), version=4),
        tx(4, w("u", 4), r("x", 0), version=5),
    ],
    "write-skew": [
        SETUP,
        tx(1, r("x", 0), r("y", 0), w("x", 1), version=2),
        tx(2, r("x", 0), r("y", 0), w("y", 2), version=3),
    ],
    "G2-item": [
        tx(100, w("x", 0), w("y", 0), w("z", 0), version=1),
        tx(1, r("x", 0), w("y", 1), version=2),
        tx(2, r("y", 0), w("z", 2), version=3),
        tx(3, r("z", 0), w("x", 3), version=4),
    ],
    "G2": [
        SETUP,
        tx(1, s("a", "c"), w("x", 1), version=2),
        tx(2, r("x", 0), w("y", 2), version=3),
        tx(3, r("y", 0), w("b", 3), version=4),
    ],
}
"""The smallest history of each anomaly, in which nothing else is found, except what it implies."""

IMPLIED = {
    "observed-vanishes": {"G-single"},
    "fractured-scan": {"G-single"},
    "long-fork": {"observed-vanishes"},
}
