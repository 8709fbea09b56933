"""Checks quad stores for ``verify``: the four indexes agree, and every id has the term that it stands for. It reads the
keyspaces once, in constant memory, and needs no rdflib."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from typing import Final

from lowtide.quads.hashing import HASHED, ID_BYTES, candidate
from lowtide.quads.indexes import EXPLICIT, INFERRED, ORDERS, PASSED, QUADS, quad_of, quads_names
from lowtide.upkeep.newest import Entries
from lowtide.upkeep.report import REPORT, Examination

_MOST_CANDIDATES: Final = 64
_MASK: Final = (1 << 64) - 1


def examine_quads(names: dict[bytes, str], entries: Entries) -> Examination:
    """Check all quad stores."""
    check = Examination("quads: indexes and terms", "statements")
    prefixes = {name: prefix for prefix, name in names.items()}
    for name in quads_names(prefixes):
        missing = [each for each in (*ORDERS, "terms") if f"{QUADS}{name}/{each}" not in prefixes]
        if missing == ["terms"]:  # so all terms are inlined
            prefixes[f"{QUADS}{name}/terms"] = b"\xff\xff\xff\xff"
        elif missing:
            check.problem(f"it has no index {missing[0]}", f"quads {name!r}", REPORT)
            continue
        _examine(name, {each: prefixes[f"{QUADS}{name}/{each}"] for each in (*ORDERS, "terms")}, entries, check)
    return check


def _examine(name: str, prefixes: dict[str, bytes], entries: Entries, check: Examination) -> None:
    where = f"quads {name!r}"
    seen = {order: _fingerprint(order, entries(prefixes[order]), where, check) for order in ORDERS}
    check.examined += seen["spoc"][0]
    for order in ORDERS[1:]:
        if seen[order] != seen["spoc"]:
            check.problem(
                f"index {order} has {seen[order][0]} statements, index spoc {seen['spoc'][0]}, and they differ",
                where,
                REPORT,
            )
    marks: set[bytes] = set()
    passed: set[bytes] = set()
    ids = _terms(entries(prefixes["terms"]), where, check, marks, passed)
    used = merge(*(_leading_ids(entries(prefixes[order])) for order in ORDERS))
    current = next(ids, None)
    for id, _ in groupby(used):
        if id[0] >> 4 in HASHED:
            while current is not None and current < id:
                current = next(ids, None)
            if current != id:
                check.problem(
                    f"a statement has the id {id.hex()}, but the dictionary has no term with it", where, REPORT
                )
    for _ in ids:
        pass
    for id in passed - marks:
        check.problem(f"id {id.hex()} was passed for another term, but has no mark", where, REPORT)


def _fingerprint(
    order: str, entries: Iterator[tuple[bytes, bytes]], where: str, check: Examination
) -> tuple[int, int, int]:
    """How many statements an index has, and two sums that are the same for the same statements in any order."""
    count = total = mixed = 0
    for key, value in entries:
        if len(key) != 4 * ID_BYTES or value not in (EXPLICIT, INFERRED):
            check.problem(f"index {order} has an entry {key.hex()} with value {value!r}", where, REPORT)
        hashed = hash((quad_of(order, key), value))
        count += 1
        total = (total + hashed) & _MASK
        mixed ^= hashed
    return count, total, mixed


def _leading_ids(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """The distinct ids that the keys of an index begin with, in order."""
    return (id for id, _ in groupby(entries, key=lambda entry: entry[0][:ID_BYTES]))


def _terms(
    entries: Iterator[tuple[bytes, bytes]], where: str, check: Examination, marks: set[bytes], passed: set[bytes]
) -> Iterator[bytes]:
    """The ids that have a row, in order. Each must be a candidate of the term in the row, and the candidates before it
    must be marked: those are added to ``passed``, and the marks to ``marks``."""
    for key, row in entries:
        if len(key) != ID_BYTES:
            if len(key) == ID_BYTES + 1 and key[ID_BYTES:] == PASSED:
                marks.add(key[:ID_BYTES])
            else:
                check.problem(f"the dictionary has a key {key.hex()}", where, REPORT)
            continue
        kind = key[0] >> 4
        candidates = []
        for salt in range(_MOST_CANDIDATES):
            candidates.append(candidate(kind, row, salt))
            if candidates[-1] == key:
                break
        else:
            check.problem(f"the term {row[:40]!r} has the id {key.hex()}, which is not its own", where)
        passed.update(candidates[:-1] if candidates[-1] == key else ())
        yield key
