"""A report by aggregation: groups, a join and buckets, all at one instant while new orders come in."""

from __future__ import annotations

import tempfile
from decimal import Decimal

import lowtide

ORDERS = [
    {"user": 1, "lines": [{"goods": "tea", "price": Decimal("9.90")}, {"goods": "cup", "price": Decimal("4.50")}]},
    {"user": 2, "lines": [{"goods": "tea", "price": Decimal("9.90")}]},
    {"user": 1, "lines": [{"goods": "pot", "price": Decimal("31.00")}]},
]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        store["users"].insert_many([{"_id": 1, "name": "Ann"}, {"_id": 2, "name": "Bob"}])
        orders = store.collection("orders")
        orders.insert_many({"_id": number, **order} for number, order in enumerate(ORDERS, 1))

        with store.snapshot() as now:
            orders.insert_one({"_id": 4, "user": 2, "lines": []})  # not in the report
            buyers = now["orders"].aggregate(
                [
                    {"$unwind": "$lines"},
                    {"$group": {"_id": "$user", "sum": {"$sum": "$lines.price"}, "goods": {"$push": "$lines.goods"}}},
                    {"$lookup": {"from": "users", "localField": "_id", "foreignField": "_id", "as": "user"}},
                    {"$addFields": {"name": {"$first": "$user.name"}}},
                    {"$sort": {"sum": -1}},
                ]
            )
            for buyer in buyers:
                print(f"{buyer['name']}: {buyer['sum']} for {', '.join(buyer['goods'])}")
            sizes = now["orders"].aggregate(
                [
                    {"$addFields": {"sum": {"$sum": "$lines.price"}}},
                    {"$bucket": {"groupBy": "$sum", "boundaries": [0, 10, 20, 100], "output": {"n": {"$sum": 1}}}},
                ]
            )
            found = sizes.to_list()
            print("orders from 0, 10 and 20 on:", [bucket["n"] for bucket in found])
        assert found == [{"_id": 0, "n": 1}, {"_id": 10, "n": 1}, {"_id": 20, "n": 1}]


if __name__ == "__main__":
    main()
