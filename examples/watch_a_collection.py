"""A watch: the changes of a collection as they are committed, resumed after a restart."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import lowtide


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "shop"
    with lowtide.open(path, before_images=True) as store:
        stock = store.collection("stock")
        low = stock.watch({"left": {"$lt": 3}}, before=True)  # from the last commit on
        seen = []

        def follow() -> None:
            for change in low:  # waits for the next one, without polling
                was = change.before["left"] if change.before else None
                print(
                    f"  {change.kind} of {change.id}: {was} -> {change.document['left'] if change.document else None}"
                )
                seen.append(change.kind)
                if change.kind == "delete":
                    return

        follower = threading.Thread(target=follow)
        follower.start()
        stock.insert_many([{"_id": "tea", "left": 7}, {"_id": "coffee", "left": 2}])
        stock.update_one({"_id": "tea"}, {"$inc": {"left": -1}})  # 6 are left: not worth a word
        stock.update_one({"_id": "tea"}, {"$inc": {"left": -5}})
        stock.delete_one({"_id": "tea"})
        follower.join()
        place = low.position  # the last commit that was shown whole; keep it where the work is kept
        low.close()
        assert seen == ["insert", "update", "delete"]
        # The log is kept for as long as a named consumer needs it.
        store.consumer("stock watcher", since=place)
        stock.insert_one({"_id": "cocoa", "left": 1})

    with lowtide.open(path) as store:
        position = store.consumer("stock watcher").position
        with store.collection("stock").watch(since=position, timeout=0) as changes:
            for change in changes:  # what was not shown whole is shown again, so nothing is lost
                print(f"  after the restart, commit {change.ts}: {change.kind} of {change.id}")


if __name__ == "__main__":
    main()
