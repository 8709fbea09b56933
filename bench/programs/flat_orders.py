"""TPC-C with orders that contain their lines, as flat code over the engine and the codec; see ``flat_shop``.

Each request does what ``OrderShop`` does. PAYMENT is the same in both models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

import lowtide
from bench.programs.flat_shop import FlatShop, engine_of
from bench.programs.requests import DISTRICTS, WAREHOUSE, Request, Row, Size
from bench.programs.shop_of_documents import UnknownItem
from bench.programs.shop_of_orders import OrderShop, order_id
from bench.registry import Durability
from lowtide.documents.prepared.statements import located
from lowtide.engine import EngineTransaction, Range, Writes
from lowtide.values.codec import decode_document as decode
from lowtide.values.ordering import AFTER_ALL, ENCODERS
from lowtide.values.partial import decoder_for

_encode = msgspec.msgpack.Encoder().encode
_text = ENCODERS[str]
_number = ENCODERS[int]
_lines = decoder_for(frozenset(("lines",)))
_WAITING = _number(0)
"""The carrier of an order that is not delivered yet, as encoded in a key."""


class FlatOrderShop(FlatShop, OrderShop):
    """A shop in its own store."""

    def __init__(self, directory: Path, durability: Durability, size: Size) -> None:
        super().__init__(directory, durability, size)
        with self._store.transaction() as shown:
            tx = engine_of(shown)
            by_carrier = located(tx, "orders").row.indexes[1]
            self._by_carrier = tx.engine.catalog.prefix_of(by_carrier.keyspace)

    def _new_order(self, shown: lowtide.Transaction, request: Request) -> Any:
        tx, places, writes, before = engine_of(shown), self._places, Writes(), Writes()
        place = f"{WAREHOUSE}.{request.district}"
        warehouse = self._document(tx, writes, places["warehouses"].documents + _text(f"{WAREHOUSE}"))
        at = places["districts"].documents + _text(place)
        district = self._to_change(tx, before, at)
        number = district["next_o_id"]
        district["next_o_id"] = number + 1
        writes[at] = _encode(district)
        customer = self._document(tx, writes, places["customers"].documents + _text(f"{place}.{request.by}"))
        items, stocks = places["items"].documents, places["stock"].documents
        prices = tx.read_many([items + _text(f"{item}") for item, _ in request.lines])
        if None in prices:
            raise UnknownItem
        at_stock = [stocks + _text(f"{WAREHOUSE}.{item}") for item, _ in request.lines]
        lines: list[Row] = []
        total = 0
        for (item, quantity), price, at, stored in zip(
            request.lines, prices, at_stock, tx.read_many(at_stock), strict=True
        ):
            before[at] = stored
            stock = decode(stored or b"")
            left = stock["quantity"] - quantity
            stock["quantity"] = left if left >= 10 else left + 91
            stock["ytd"] += quantity
            stock["order_cnt"] += 1
            writes[at] = _encode(stock)
            amount = quantity * decode(price or b"")["price"]
            total += amount
            lines.append({"number": len(lines) + 1, "i_id": item, "quantity": quantity, "amount": amount})
        name = order_id(request.district, number)
        key, documents = _text(name), places["orders"].documents
        parts = _number(WAREHOUSE) + _number(request.district)
        entry = places["orders"].entries + parts + _number(int(request.by)) + _number(number) + key
        waiting = self._by_carrier + parts + _WAITING + _number(number) + key
        writes[documents + key] = _encode(
            {"_id": name, "w_id": WAREHOUSE, "d_id": request.district, "o_id": number, "c_id": request.by,
             "entry_d": request.now, "carrier_id": 0, "ol_cnt": len(lines), "delivery_d": 0, "lines": lines}
        )  # fmt: skip
        writes[entry] = writes[waiting] = bytes((len(key),))
        before[documents + key] = before[entry] = before[waiting] = None
        self._apply(tx, writes, before, "districts", "stock", "orders")
        return number, total * (100 - customer["discount"]) * (100 + warehouse["tax"] + district["tax"])

    def _order_status(self, shown: lowtide.Transaction, request: Request) -> Any:
        tx = engine_of(shown)
        found = self._found(tx, request)
        if found is None:
            return None
        customer = decode(found[1])
        documents, entries, _ = self._places["orders"]
        start = entries + _number(WAREHOUSE) + _number(request.district) + _number(customer["c_id"])
        last = tx.first(Range(start, start + AFTER_ALL, True))
        assert last is not None
        order = self._document(tx, {}, documents + last[0][-last[1][0] :])
        items = sorted(line["i_id"] for line in order["lines"])
        return customer["balance"], order["o_id"], order["carrier_id"], items

    def _delivery(self, shown: lowtide.Transaction, request: Request) -> Any:
        tx, delivered, writes, before = engine_of(shown), [], Writes(), Writes()
        documents = self._places["orders"].documents
        for district in range(1, DISTRICTS + 1):
            of_district = self._by_carrier + _number(WAREHOUSE) + _number(district)
            start = of_district + _WAITING
            oldest = tx.first(Range(start, start + AFTER_ALL))
            if oldest is None:
                continue
            key, length = oldest[0][-oldest[1][0] :], oldest[1]
            order = self._to_change(tx, before, documents + key)
            number, total = order["o_id"], sum(line["amount"] for line in order["lines"])
            order["carrier_id"], order["delivery_d"] = request.number, request.now
            writes[documents + key] = _encode(order)
            lost = start + _number(number) + key
            got = of_district + _number(request.number) + _number(number) + key
            writes[lost], before[lost] = None, length
            writes[got], before[got] = length, None
            self._credit(tx, writes, before, f"{WAREHOUSE}.{district}.{order['c_id']}", total)
            delivered.append((district, number, total))
        if writes:
            self._apply(tx, writes, before, "orders", "customers")
        return delivered

    def _recent_items(self, tx: EngineTransaction, district: int, upto: int) -> set[int]:
        documents = self._places["orders"].documents
        low, high = (documents + _text(order_id(district, number)) for number in (upto - 20, upto))
        orders, _ = tx.few(Range(low, high), 256) or ([], True)
        return {line["i_id"] for _, stored in orders for line in _lines(stored)["lines"]}
