"""TPC-C on Lowtide's collections, as a program would use them: one document per row, one transaction per request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lowtide
from bench.programs.requests import DISTRICTS, WAREHOUSE, Request, Row, Size, first_rows
from bench.registry import Durability

IDS: dict[str, tuple[str, ...]] = {
    "warehouses": ("w_id",),
    "items": ("i_id",),
    "stock": ("w_id", "i_id"),
    "districts": ("w_id", "d_id"),
    "customers": ("w_id", "d_id", "c_id"),
    "orders": ("w_id", "d_id", "o_id"),
    "new_orders": ("w_id", "d_id", "o_id"),
    "order_lines": ("w_id", "d_id", "o_id", "number"),
    "history": ("w_id", "now"),
}
"""Of each collection, the fields that its ``_id`` is made of."""
INDEXES = {
    "customers": [("w_id", 1), ("d_id", 1), ("last", 1), ("first", 1)],
    "orders": [("w_id", 1), ("d_id", 1), ("c_id", 1), ("o_id", 1)],
    "new_orders": [("w_id", 1), ("d_id", 1), ("o_id", 1)],
    "order_lines": [("w_id", 1), ("d_id", 1), ("o_id", 1)],
}


class UnknownItem(Exception):
    """Raised for an order of an item that the shop does not have."""


def with_id(table: str, row: Row) -> Row:
    return {"_id": ".".join(str(row[name]) for name in IDS[table]), **row}


class DocumentShop:
    """A shop in its own store."""

    def __init__(self, directory: Path, durability: Durability, size: Size) -> None:
        self._store = lowtide.open(directory, durability="full" if durability == "synced" else "relaxed")
        self._load(size)
        self._store.checkpoint()
        self._answers = {
            "new_order": self._new_order,
            "payment": self._payment,
            "order_status": self._order_status,
            "delivery": self._delivery,
            "stock_level": self._stock_level,
        }

    def _load(self, size: Size) -> None:
        loaded: dict[str, list[Row]] = {}
        for table, row in first_rows(size):
            loaded.setdefault(table, []).append(with_id(table, row))
        for table, rows in loaded.items():
            self._store[table].insert_many(rows)
        for table, keys in INDEXES.items():
            self._store[table].create_index(keys)

    def answer(self, request: Request) -> Any:
        answer = self._answers[request.kind]
        try:
            return self._store.run(lambda tx: answer(tx, request))
        except UnknownItem:
            return None

    def _new_order(self, tx: lowtide.Transaction, request: Request) -> Any:
        place = f"{WAREHOUSE}.{request.district}"
        warehouse = tx["warehouses"].find_one({"_id": f"{WAREHOUSE}"})
        district = tx["districts"].find_one_and_update({"_id": place}, {"$inc": {"next_o_id": 1}})
        customer = tx["customers"].find_one({"_id": f"{place}.{request.by}"})
        assert warehouse is not None
        assert district is not None
        assert customer is not None
        order, where = district["next_o_id"], {"w_id": WAREHOUSE, "d_id": request.district}
        lines, total = [], 0
        for number, (wanted, quantity) in enumerate(request.lines, 1):
            item = tx["items"].find_one({"_id": f"{wanted}"})
            if item is None:
                raise UnknownItem
            stock = tx["stock"].find_one({"_id": f"{WAREHOUSE}.{wanted}"})
            assert stock is not None
            left = stock["quantity"] - quantity
            tx["stock"].update_one(
                {"_id": stock["_id"]},
                {"$set": {"quantity": left if left >= 10 else left + 91}, "$inc": {"ytd": quantity, "order_cnt": 1}},
            )
            amount = quantity * item["price"]
            total += amount
            line = {"o_id": order, "number": number, "i_id": wanted, "quantity": quantity, "amount": amount}
            lines.append({"_id": f"{place}.{order}.{number}", **where, **line, "delivery_d": 0})
        entry = {"o_id": order, "c_id": request.by, "entry_d": request.now, "carrier_id": 0, "ol_cnt": len(lines)}
        tx["orders"].insert_one({"_id": f"{place}.{order}", **where, **entry})
        tx["new_orders"].insert_one({"_id": f"{place}.{order}", **where, "o_id": order})
        tx["order_lines"].insert_many(lines)
        return order, total * (100 - customer["discount"]) * (100 + warehouse["tax"] + district["tax"])

    def _customer(self, tx: lowtide.Transaction, request: Request) -> Row | None:
        if isinstance(request.by, int):
            return tx["customers"].find_one({"_id": f"{WAREHOUSE}.{request.district}.{request.by}"})
        wanted = {"w_id": WAREHOUSE, "d_id": request.district, "last": request.by}
        found = tx["customers"].find(wanted).sort("first").to_list()
        return found[len(found) // 2] if found else None

    def _payment(self, tx: lowtide.Transaction, request: Request) -> Any:
        amount, now = request.number, request.now
        customer = self._customer(tx, request)
        if customer is None:
            return None
        tx["warehouses"].update_one({"_id": f"{WAREHOUSE}"}, {"$inc": {"ytd": amount}})
        tx["districts"].update_one({"_id": f"{WAREHOUSE}.{request.district}"}, {"$inc": {"ytd": amount}})
        change: Row = {"$inc": {"balance": -amount, "ytd_payment": amount, "payment_cnt": 1}}
        if customer["credit"] == "BC":
            change["$set"] = {"data": f"{customer['c_id']} {amount} {customer['data']}"[:100]}
        tx["customers"].update_one({"_id": customer["_id"]}, change)
        paid = {"w_id": WAREHOUSE, "now": now, "d_id": request.district, "c_id": customer["c_id"], "amount": amount}
        tx["history"].insert_one({"_id": f"{WAREHOUSE}.{now}", **paid})
        return customer["c_id"], customer["balance"] - amount

    def _order_status(self, tx: lowtide.Transaction, request: Request) -> Any:
        customer = self._customer(tx, request)
        if customer is None:
            return None
        where = {"w_id": WAREHOUSE, "d_id": request.district}
        order = tx["orders"].find_one({**where, "c_id": customer["c_id"]}, sort=[("o_id", -1)])
        assert order is not None
        lines = tx["order_lines"].find({**where, "o_id": order["o_id"]}).to_list()
        return customer["balance"], order["o_id"], order["carrier_id"], sorted(line["i_id"] for line in lines)

    def _delivery(self, tx: lowtide.Transaction, request: Request) -> Any:
        delivered = []
        for district in range(1, DISTRICTS + 1):
            where, place = {"w_id": WAREHOUSE, "d_id": district}, f"{WAREHOUSE}.{district}"
            oldest = tx["new_orders"].find_one(where, sort=[("o_id", 1)])
            if oldest is None:
                continue
            number = oldest["o_id"]
            tx["new_orders"].delete_one({"_id": oldest["_id"]})
            changed = {"$set": {"carrier_id": request.number}}
            order = tx["orders"].find_one_and_update({"_id": f"{place}.{number}"}, changed)
            assert order is not None
            total = sum(line["amount"] for line in tx["order_lines"].find({**where, "o_id": number}))
            tx["order_lines"].update_many({**where, "o_id": number}, {"$set": {"delivery_d": request.now}})
            tx["customers"].update_one(
                {"_id": f"{place}.{order['c_id']}"}, {"$inc": {"balance": total, "delivery_cnt": 1}}
            )
            delivered.append((district, number, total))
        return delivered

    def _stock_level(self, tx: lowtide.Transaction, request: Request) -> Any:
        district = tx["districts"].find_one({"_id": f"{WAREHOUSE}.{request.district}"})
        assert district is not None
        upto = district["next_o_id"]
        recent = {"w_id": WAREHOUSE, "d_id": request.district, "o_id": {"$gte": upto - 20, "$lt": upto}}
        items = {line["i_id"] for line in tx["order_lines"].find(recent)}
        low = {"_id": {"$in": [f"{WAREHOUSE}.{item}" for item in sorted(items)]}, "quantity": {"$lt": request.number}}
        return tx["stock"].count_documents(low)

    def rows(self) -> Iterator[tuple[str, list[Row]]]:
        """Everything it holds, by table."""
        with self._store.snapshot() as snapshot:
            for table in IDS:
                yield table, snapshot[table].find({}, {"_id": 0}).to_list()

    def settle(self) -> None:
        self._store.checkpoint()

    def close(self) -> None:
        self._store.close()
