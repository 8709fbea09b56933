"""An index: explain() without and with it, and which order of its paths serves which query."""

from __future__ import annotations

import random
import tempfile
from typing import Any

import lowtide

CITIES = ["Bergen", "Oslo", "Tromsø", "Bodø", "Ålesund"]


def told(cursor: lowtide.Cursor) -> str:
    """The result of explain(), in one line."""
    plan = cursor.explain()
    stage: dict[str, Any] | None = plan["queryPlanner"]["winningPlan"]
    stages = []
    while stage is not None:
        stages.append(stage["stage"] + (f" of {stage['indexName']}" if "indexName" in stage else ""))
        stage = stage.get("inputStage")
    done = plan["executionStats"]
    return (
        f"{' <- '.join(stages)}: {done['totalKeysExamined']} keys and {done['totalDocsExamined']} documents "
        f"for {done['nReturned']} results"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        users = store.collection("users")
        chance = random.Random(1)
        users.insert_many(
            {"_id": number, "city": chance.choice(CITIES), "age": chance.randrange(90)} for number in range(1000)
        )
        query = {"city": "Oslo", "age": {"$gte": 80}}
        print("without an index:", told(users.find(query).sort("age", -1)))

        users.create_index([("city", 1), ("age", 1)])  # equality first, then what is ordered and compared
        print("with one:        ", told(users.find(query).sort("age", -1)))
        print("the oldest five: ", told(users.find({"city": "Oslo"}).sort("age", -1).limit(5)))
        print("of all cities:   ", told(users.find({"age": {"$gte": 80}})))  # not by its second path alone
        print("several cities:  ", told(users.find({"city": {"$in": CITIES[:2]}, "age": 44})))

        by_index = users.find(query).sort("age").to_list()
        assert by_index == users.find(query).sort("age").hint("$natural").to_list()


if __name__ == "__main__":
    main()
