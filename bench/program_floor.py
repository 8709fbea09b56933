"""``python -m bench.program_floor``: what TPC-C costs on collections, as flat code over the engine, and on sqlite3.

Three shops get the same requests in turns and must give the same answers: ``DocumentShop`` as a program would be
written, ``FlatShop`` without collections (see ``bench/programs/flat_shop``), and sqlite3's tables. What is between the
first two is the cost of statements on documents. What is between the last two is the cost of an engine and a codec that
are called from Python; no work on collections can save it.

Commits are not synced, and what counts is CPU time: the median of the rounds.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from bench.programs.flat_shop import FlatShop
from bench.programs.requests import KINDS, Request, Size, stream
from bench.programs.section import MIX, Differs
from bench.programs.shop_of_documents import DocumentShop
from bench.programs.shop_of_tables import TableShop

Shop = DocumentShop | TableShop
Spent = dict[str, tuple[int, float]]
"""By kind of request, and in all: how many, and CPU seconds."""


def answered(shop: Shop, requests: list[Request]) -> tuple[list[Any], Spent]:
    """The answers of a shop, and what they took."""
    gc.collect()
    answers, spent = [], dict.fromkeys((*KINDS, MIX), (0, 0.0))
    for request in requests:
        started = process_time()
        answers.append(shop.answer(request))
        took = process_time() - started
        for kind in (request.kind, MIX):
            spent[kind] = (spent[kind][0] + 1, spent[kind][1] + took)
    return answers, spent


def compare(place: Path, size: Size, count: int, rounds: int) -> dict[str, dict[str, float]]:
    """By kind of request, microseconds of each shop."""
    shops: dict[str, Shop] = {
        "collections": DocumentShop(place / "documents", "unsynced", size),
        "flat": FlatShop(place / "flat", "unsynced", size),
        "sqlite3": TableShop(place / "tables", "unsynced", size),
    }
    took: dict[str, dict[str, list[float]]] = {kind: {name: [] for name in shops} for kind in (*KINDS, MIX)}
    try:
        for number in range(rounds):
            requests, answers = stream(size, number + 1, count), []
            for name, shop in shops.items():
                found, spent = answered(shop, requests)
                answers.append(found)
                shop.settle()
                for kind, (n, seconds) in spent.items():
                    if n:
                        took[kind][name].append(seconds / n * 1e6)
            if answers[0] != answers[1] or answers[0] != answers[2]:
                raise Differs(
                    next(each for each in zip(requests, *answers, strict=True) if not each[1] == each[2] == each[3])
                )
    finally:
        for shop in shops.values():
            shop.close()
    return {kind: {name: median(each) for name, each in by.items()} for kind, by in took.items() if all(by.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--customers", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = compare(Path(name), Size(given.customers, 1000), given.requests, given.rounds)
    print(f"{'CPU µs a request':18} {'collections':>12} {'flat':>8} {'sqlite3':>8}   sqlite3 / collections, / flat")
    for kind, by in found.items():
        api, flat, tables = by["collections"], by["flat"], by["sqlite3"]
        print(f"{kind:18} {api:12.0f} {flat:8.0f} {tables:8.0f}   {tables / api:21.2f}, {tables / flat:6.2f}")


if __name__ == "__main__":
    main()
