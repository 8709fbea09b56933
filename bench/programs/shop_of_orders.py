"""TPC-C on Lowtide's collections, modelled for documents: an order and its lines, which are always written and read
together, are one document. Requests read only the fields that they need, like the statements on tables.

The ``_id`` of an order sorts by warehouse, district and number, so a range of orders needs no index. Tables have the
same in their composite primary keys. Orders that wait for delivery are found by an index, not in a separate collection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lowtide
from bench.programs.requests import DISTRICTS, WAREHOUSE, Request, Row, Size, first_rows
from bench.programs.shop_of_documents import INDEXES, DocumentShop, UnknownItem, with_id

_OF_A_LINE = ("number", "i_id", "quantity", "amount")
_OF_A_CUSTOMER = {"c_id": 1, "balance": 1, "credit": 1, "data": 1}
_WAITING = 0
"""The carrier of an order that is not delivered yet."""


def order_id(district: int, number: int) -> str:
    return f"{WAREHOUSE}.{district:02d}.{number:08d}"


class OrderShop(DocumentShop):
    """A shop in its own store."""

    def _load(self, size: Size) -> None:
        loaded: dict[str, list[Row]] = {}
        orders: dict[str, Row] = {}
        for table, row in first_rows(size):
            if table == "orders":
                number = order_id(row["d_id"], row["o_id"])
                orders[number] = {"_id": number, **row, "delivery_d": 0, "lines": []}
            elif table == "order_lines":
                order = orders[order_id(row["d_id"], row["o_id"])]
                order["delivery_d"] = row["delivery_d"]
                order["lines"].append({name: row[name] for name in _OF_A_LINE})
            elif table != "new_orders":
                loaded.setdefault(table, []).append(with_id(table, row))
        for table, rows in loaded.items():
            self._store[table].insert_many(rows)
        self._store["orders"].insert_many(list(orders.values()))
        for table in ("customers", "orders"):
            self._store[table].create_index(INDEXES[table])
        self._store["orders"].create_index([("w_id", 1), ("d_id", 1), ("carrier_id", 1), ("o_id", 1)])

    def _new_order(self, tx: lowtide.Transaction, request: Request) -> Any:
        place = f"{WAREHOUSE}.{request.district}"
        warehouse = tx["warehouses"].find_one({"_id": f"{WAREHOUSE}"}, {"tax": 1})
        district = tx["districts"].find_one_and_update({"_id": place}, {"$inc": {"next_o_id": 1}})
        customer = tx["customers"].find_one({"_id": f"{place}.{request.by}"}, {"discount": 1})
        assert warehouse is not None
        assert district is not None
        assert customer is not None
        wanted = [f"{item}" for item, _ in request.lines]
        prices = {each["_id"]: each["price"] for each in tx["items"].find({"_id": {"$in": wanted}}, {"price": 1})}
        if len(prices) < len(wanted):
            raise UnknownItem
        ids = [f"{WAREHOUSE}.{item}" for item in wanted]
        stock, left = tx["stock"], {}
        for each in stock.find({"_id": {"$in": ids}}, {"quantity": 1}):
            left[each["_id"]] = each["quantity"]
        lines, total = [], 0
        for number, (item, quantity) in enumerate(request.lines, 1):
            at = ids[number - 1]
            remains = left[at] - quantity
            stock.update_one(
                {"_id": at},
                {"$set": {"quantity": remains if remains >= 10 else remains + 91},
                 "$inc": {"ytd": quantity, "order_cnt": 1}},
            )  # fmt: skip
            amount = quantity * prices[wanted[number - 1]]
            total += amount
            lines.append({"number": number, "i_id": item, "quantity": quantity, "amount": amount})
        order = district["next_o_id"]
        tx["orders"].insert_one(
            {"_id": order_id(request.district, order), "w_id": WAREHOUSE, "d_id": request.district, "o_id": order,
             "c_id": request.by, "entry_d": request.now, "carrier_id": _WAITING, "ol_cnt": len(lines),
             "delivery_d": 0, "lines": lines}
        )  # fmt: skip
        return order, total * (100 - customer["discount"]) * (100 + warehouse["tax"] + district["tax"])

    def _customer(self, tx: lowtide.Transaction, request: Request) -> Row | None:
        if isinstance(request.by, int):
            return tx["customers"].find_one({"_id": f"{WAREHOUSE}.{request.district}.{request.by}"}, _OF_A_CUSTOMER)
        wanted = {"w_id": WAREHOUSE, "d_id": request.district, "last": request.by}
        found = tx["customers"].find(wanted, _OF_A_CUSTOMER).sort("first").to_list()
        return found[len(found) // 2] if found else None

    def _order_status(self, tx: lowtide.Transaction, request: Request) -> Any:
        customer = self._customer(tx, request)
        if customer is None:
            return None
        of_customer = {"w_id": WAREHOUSE, "d_id": request.district, "c_id": customer["c_id"]}
        order = tx["orders"].find_one(of_customer, {"o_id": 1, "carrier_id": 1, "lines": 1}, sort=[("o_id", -1)])
        assert order is not None
        items = sorted(line["i_id"] for line in order["lines"])
        return customer["balance"], order["o_id"], order["carrier_id"], items

    def _delivery(self, tx: lowtide.Transaction, request: Request) -> Any:
        delivered = []
        for district in range(1, DISTRICTS + 1):
            order = tx["orders"].find_one_and_update(
                {"w_id": WAREHOUSE, "d_id": district, "carrier_id": _WAITING},
                {"$set": {"carrier_id": request.number, "delivery_d": request.now}},
                sort=[("o_id", 1)],
            )
            if order is None:
                continue
            total = sum(line["amount"] for line in order["lines"])
            tx["customers"].update_one(
                {"_id": f"{WAREHOUSE}.{district}.{order['c_id']}"}, {"$inc": {"balance": total, "delivery_cnt": 1}}
            )
            delivered.append((district, order["o_id"], total))
        return delivered

    def _stock_level(self, tx: lowtide.Transaction, request: Request) -> Any:
        district = tx["districts"].find_one({"_id": f"{WAREHOUSE}.{request.district}"}, {"next_o_id": 1})
        assert district is not None
        upto = district["next_o_id"]
        recent = {"_id": {"$gte": order_id(request.district, upto - 20), "$lt": order_id(request.district, upto)}}
        ids = [f"{WAREHOUSE}.{item}" for item in tx["orders"].distinct("lines.i_id", recent)]
        return tx["stock"].count_documents({"_id": {"$in": ids}, "quantity": {"$lt": request.number}})

    def rows(self) -> Iterator[tuple[str, list[Row]]]:
        """Everything it holds, by table."""
        for table, rows in super().rows():
            if table == "orders":
                yield from _tables_of(rows)
            elif table not in ("new_orders", "order_lines"):
                yield table, rows


def _tables_of(orders: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The same orders as rows of three tables."""
    new, lines = [], []
    for order in orders:
        key = {name: order[name] for name in ("w_id", "d_id", "o_id")}
        if order["carrier_id"] == _WAITING:
            new.append(key)
        lines += [key | line | {"delivery_d": order["delivery_d"]} for line in order["lines"]]
        del order["lines"], order["delivery_d"]
    yield from (("orders", orders), ("new_orders", new), ("order_lines", lines))
