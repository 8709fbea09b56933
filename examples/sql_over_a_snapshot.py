"""SQL over a snapshot: a join by DuckDB while others write, and the same collections as Arrow tables."""

from __future__ import annotations

import tempfile

import lowtide

REVENUE = """
    select city, count(distinct users._id) as buyers, sum(total) as revenue
    from users join orders on orders.user = users._id
    where total >= $least group by city order by revenue desc
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        users, orders = store.collection("users"), store.collection("orders")
        users.insert_many({"_id": number, "city": ["Oslo", "Bergen"][number % 2]} for number in range(10))
        orders.insert_many({"_id": number, "user": number % 7, "total": number * 10} for number in range(50))

        with store.snapshot() as now:
            before = now.sql(REVENUE, {"least": 100})
            users.update_many({}, {"$set": {"city": "Oslo"}})  # everybody moves
            after = now.sql(REVENUE, {"least": 100})
            print(before)
            assert before.fetchall() == after.fetchall()  # not in the snapshot
            table = now["orders"].to_arrow(["user", "total"], filter={"total": {"$gte": 100}})
            print(f"as Arrow: {table.num_rows} rows of {', '.join(table.column_names)}")
        print(store.sql(REVENUE, {"least": 100}))  # of the last commit

        try:
            store.sql("delete from users")
        except lowtide.OperationFailure as error:
            print("refused:", error)


if __name__ == "__main__":
    main()
