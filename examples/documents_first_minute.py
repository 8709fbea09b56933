"""Documents: insert, find, update and delete as in PyMongo, and a transaction that changes two collections."""

from __future__ import annotations

import tempfile

import lowtide


def order(tx: lowtide.Transaction) -> None:
    """Take three teas from the stock and record the order: both, or neither."""
    taken = tx["stock"].update_one({"_id": "tea", "left": {"$gte": 3}}, {"$inc": {"left": -3}})
    if not taken.modified_count:
        raise LookupError("there is not enough tea")
    tx["orders"].insert_one({"user": "ann", "goods": [{"name": "tea", "count": 3}]})


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        stock = store.collection("stock")  # each call is a transaction of its own
        stock.insert_many([{"_id": "tea", "left": 5}, {"_id": "coffee", "left": 3, "tags": ["new"]}])
        stock.update_many({}, {"$set": {"shelf": 7}, "$addToSet": {"tags": "hot"}})
        print("new:", stock.find_one({"tags": "new"}))

        store.run(order)
        try:
            store.run(order)
        except LookupError as error:
            print("the second order:", error)

        print("stock:", stock.find({}, {"left": 1}).to_list())
        orders = list(store["orders"].find({"goods.name": "tea"}))
        print(f"orders: {len(orders)}, its _id is a {type(orders[0]['_id']).__name__} that sorts by time")
        assert stock.find_one("tea") == {"_id": "tea", "left": 2, "shelf": 7, "tags": ["hot"]}
        assert stock.delete_one({"left": 3}).deleted_count == 1


if __name__ == "__main__":
    main()
