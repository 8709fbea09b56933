"""Four processes write to one store: the first owns it, the others join. This needs no configuration and no locks."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from pathlib import Path

import lowtide


def sell(tx: lowtide.Transaction) -> bool:
    stock = tx["stock"].find_one({"_id": "tea"})
    if stock is None or stock["left"] == 0:
        return False
    tx["stock"].update_one({"_id": "tea"}, {"$inc": {"left": -1}})
    tx["sales"].insert_one({"process": os.getpid()})
    return True


def work(path: Path) -> int:
    """Runs in another process: sells until nothing is left."""
    sold = 0
    with lowtide.open(path) as store:
        while store.run(sell):
            sold += 1
    return sold


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "shop"
    with lowtide.open(path) as store:
        store["stock"].insert_one({"_id": "tea", "left": 100})
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            sold = [*pool.map(work, [path] * 3), work(path)]
        print("sold:", sum(sold))
        print("sales:", store["sales"].count_documents({}))
        print("left:", store["stock"].distinct("left"))


if __name__ == "__main__":
    main()
