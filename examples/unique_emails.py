"""A unique index: the second insert gets DuplicateKeyError, whether it comes later or at the same time."""

from __future__ import annotations

import tempfile
import threading

import lowtide


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        users = store.collection("users")
        users.create_index("email", unique=True)
        users.insert_one({"_id": 1, "email": "ann@example.com"})
        try:
            users.insert_one({"_id": 2, "email": "ann@example.com"})
        except lowtide.DuplicateKeyError as error:
            print("one after the other:", error.details["keyValue"], "belongs to", error.details["_id"])

        # Two transactions that do not see each other: the first commit wins, the other gets an error.
        first, second = store.begin(), store.begin()
        first["users"].insert_one({"_id": 3, "email": "bob@example.com"})
        second["users"].insert_one({"_id": 4, "email": "bob@example.com"})
        first.commit()
        try:
            second.commit()
        except lowtide.DuplicateKeyConflict as error:
            print("at the same time:   ", error.details["keyValue"], "belongs to", error.details["_id"])

        # Ten threads want one address. store.run retries after a conflict, and then finds the address taken.
        outcomes: list[str] = []

        def register(number: int) -> None:
            try:
                store.run(lambda tx: tx["users"].insert_one({"_id": number, "email": "cid@example.com"}))
                outcomes.append("registered")
            except lowtide.DuplicateKeyError:
                outcomes.append("taken")

        threads = [threading.Thread(target=register, args=(number,)) for number in range(10, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"ten threads:         {outcomes.count('registered')} registered, {outcomes.count('taken')} were refused")
        assert sorted(outcomes) == ["registered"] + ["taken"] * 9
        assert users.count_documents({}) == 3


if __name__ == "__main__":
    main()
