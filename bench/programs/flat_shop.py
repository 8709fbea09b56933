"""TPC-C as flat code over the engine's reads and writes and the codec: the cost of a program without collections.

Each request does what ``DocumentShop`` does, on the same documents and index entries, in the same transactions, and
gives the same answers. It omits what a collection does for its caller: interpret filters and updates, choose an index,
validate values, and check whether an ``_id`` exists. No program should be written like this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import lowtide
from bench.programs.requests import DISTRICTS, WAREHOUSE, Request, Row, Size
from bench.programs.shop_of_documents import IDS, DocumentShop, UnknownItem
from bench.registry import Durability
from lowtide.documents.prepared.statements import located
from lowtide.engine import EngineTransaction, Range, Writes
from lowtide.store.transactions import statements_of
from lowtide.values.codec import decode_document as decode
from lowtide.values.ordering import AFTER_ALL, ENCODERS
from lowtide.values.partial import decoder_for

_encode = msgspec.msgpack.Encoder().encode
_text = ENCODERS[str]
_number = ENCODERS[int]
_item = decoder_for(frozenset(("i_id",)))
_quantity = decoder_for(frozenset(("quantity",)))
_MOST = 1024
"""More than the number of entries in any range of an index here."""


class Place(NamedTuple):
    """The prefixes of a collection's documents and of its first index, and the key of its row in the catalog."""

    documents: bytes
    entries: bytes
    row_key: bytes


class FlatShop(DocumentShop):
    """A shop in its own store."""

    def __init__(self, directory: Path, durability: Durability, size: Size) -> None:
        super().__init__(directory, durability, size)
        with self._store.transaction() as tx:
            self._places = {name: _place(engine_of(tx), name) for name in IDS}

    def _document(self, tx: EngineTransaction, writes: Writes, full_key: bytes) -> Row:
        stored = writes.get(full_key)
        if stored is None:
            stored = tx.read(full_key)
        assert stored is not None
        return decode(stored)

    def _to_change(self, tx: EngineTransaction, before: Writes, full_key: bytes) -> Row:
        """A document that the request will change. Its stored form is added to ``before``."""
        before[full_key] = stored = tx.read(full_key)
        assert stored is not None
        return decode(stored)

    def _apply(self, tx: EngineTransaction, writes: Writes, before: Writes, *names: str) -> None:
        tx.apply(writes, [self._places[name].row_key for name in names], before)

    def _new_order(self, shown: lowtide.Transaction, request: Request) -> Any:
        tx, places = engine_of(shown), self._places
        read, place, writes, before = tx.read, f"{WAREHOUSE}.{request.district}", Writes(), Writes()
        warehouse = self._document(tx, writes, places["warehouses"].documents + _text(f"{WAREHOUSE}"))
        at = places["districts"].documents + _text(place)
        district = self._to_change(tx, before, at)
        order = district["next_o_id"]
        district["next_o_id"] = order + 1
        writes[at] = _encode(district)
        customer = self._document(tx, writes, places["customers"].documents + _text(f"{place}.{request.by}"))
        items, stocks = places["items"].documents, places["stock"].documents
        lines, entries, _ = places["order_lines"]
        parts = _number(WAREHOUSE) + _number(request.district)
        entry, total = entries + parts + _number(order), 0
        for number, (wanted, quantity) in enumerate(request.lines, 1):
            stored = read(items + _text(f"{wanted}"))
            if stored is None:
                raise UnknownItem
            amount = quantity * decode(stored)["price"]
            total += amount
            at = stocks + _text(f"{WAREHOUSE}.{wanted}")
            stored = writes.get(at)
            if stored is None:
                before[at] = stored = read(at)
                assert stored is not None
            stock = decode(stored)
            left = stock["quantity"] - quantity
            stock["quantity"] = left if left >= 10 else left + 91
            stock["ytd"] += quantity
            stock["order_cnt"] += 1
            writes[at] = _encode(stock)
            name = f"{place}.{order}.{number}"
            key = _text(name)
            writes[lines + key] = _encode(
                {"_id": name, "w_id": WAREHOUSE, "d_id": request.district, "o_id": order, "number": number,
                 "i_id": wanted, "quantity": quantity, "amount": amount, "delivery_d": 0}
            )  # fmt: skip
            writes[entry + key] = bytes((len(key),))
            before[lines + key] = before[entry + key] = None
        name = f"{place}.{order}"
        key = _text(name)
        documents, entries, _ = places["orders"]
        at, entry = documents + key, entries + parts + _number(int(request.by)) + _number(order) + key
        writes[at] = _encode(
            {"_id": name, "w_id": WAREHOUSE, "d_id": request.district, "o_id": order, "c_id": request.by,
             "entry_d": request.now, "carrier_id": 0, "ol_cnt": len(request.lines)}
        )  # fmt: skip
        writes[entry] = bytes((len(key),))
        before[at] = before[entry] = None
        documents, entries, _ = places["new_orders"]
        at, entry = documents + key, entries + parts + _number(order) + key
        writes[at] = _encode({"_id": name, "w_id": WAREHOUSE, "d_id": request.district, "o_id": order})
        writes[entry] = bytes((len(key),))
        before[at] = before[entry] = None
        self._apply(tx, writes, before, "districts", "stock", "orders", "new_orders", "order_lines")
        return order, total * (100 - customer["discount"]) * (100 + warehouse["tax"] + district["tax"])

    def _found(self, tx: EngineTransaction, request: Request) -> tuple[bytes, bytes] | None:
        """The full key of a customer, and the document."""
        documents, entries, _ = self._places["customers"]
        if isinstance(request.by, int):
            at = documents + _text(f"{WAREHOUSE}.{request.district}.{request.by}")
        else:
            start = entries + _number(WAREHOUSE) + _number(request.district) + _text(request.by)
            found, _ = tx.few(Range(start, start + AFTER_ALL), _MOST) or ([], True)
            if not found:
                return None
            key, value = found[len(found) // 2]
            at = documents + key[-value[0] :]
        stored = tx.read(at)
        assert stored is not None
        return at, stored

    def _payment(self, shown: lowtide.Transaction, request: Request) -> Any:
        tx, places, amount = engine_of(shown), self._places, request.number
        found = self._found(tx, request)
        if found is None:
            return None
        at, stored = found
        customer, writes, before = decode(stored), Writes(), Writes()
        before[at] = stored
        balance = customer["balance"] - amount
        customer["balance"] = balance
        customer["ytd_payment"] += amount
        customer["payment_cnt"] += 1
        if customer["credit"] == "BC":
            customer["data"] = f"{customer['c_id']} {amount} {customer['data']}"[:100]
        writes[at] = _encode(customer)
        for name, key in (("warehouses", f"{WAREHOUSE}"), ("districts", f"{WAREHOUSE}.{request.district}")):
            at = places[name].documents + _text(key)
            document = self._to_change(tx, before, at)
            document["ytd"] += amount
            writes[at] = _encode(document)
        name = f"{WAREHOUSE}.{request.now}"
        at = places["history"].documents + _text(name)
        before[at] = None
        writes[at] = _encode(
            {"_id": name, "w_id": WAREHOUSE, "now": request.now, "d_id": request.district,
             "c_id": customer["c_id"], "amount": amount}
        )  # fmt: skip
        self._apply(tx, writes, before, "warehouses", "districts", "customers", "history")
        return customer["c_id"], balance

    def _lines(self, tx: EngineTransaction, district: int, low: int, high: int) -> tuple[list[bytes], list[bytes]]:
        """The full keys of the lines of some orders, and the lines."""
        documents, entries, _ = self._places["order_lines"]
        start = entries + _number(WAREHOUSE) + _number(district)
        found, _ = tx.few(Range(start + _number(low), start + _number(high)), _MOST) or ([], True)
        full_keys = [documents + key[-value[0] :] for key, value in found]
        return full_keys, [stored for stored in tx.read_many(full_keys) if stored is not None]

    def _order_status(self, shown: lowtide.Transaction, request: Request) -> Any:
        tx, district = engine_of(shown), request.district
        found = self._found(tx, request)
        if found is None:
            return None
        customer = decode(found[1])
        documents, entries, _ = self._places["orders"]
        start = entries + _number(WAREHOUSE) + _number(district) + _number(customer["c_id"])
        last = tx.first(Range(start, start + AFTER_ALL, True))
        assert last is not None
        order = self._document(tx, {}, documents + last[0][-last[1][0] :])
        _, lines = self._lines(tx, district, order["o_id"], order["o_id"] + 1)
        items = sorted(decode(line)["i_id"] for line in lines)
        return customer["balance"], order["o_id"], order["carrier_id"], items

    def _delivery(self, shown: lowtide.Transaction, request: Request) -> Any:
        tx, places, delivered = engine_of(shown), self._places, []
        writes, before = Writes(), Writes()
        documents, entries, _ = places["new_orders"]
        for district in range(1, DISTRICTS + 1):
            start = entries + _number(WAREHOUSE) + _number(district)
            oldest = tx.first(Range(start, start + AFTER_ALL))
            if oldest is None:
                continue
            entry, length = entries + oldest[0], oldest[1]
            key = entry[-length[0] :]
            before[entry], before[documents + key] = length, tx.read(documents + key)
            number = decode(before[documents + key] or b"")["o_id"]
            writes[entry] = writes[documents + key] = None
            at = places["orders"].documents + key
            order = self._to_change(tx, before, at)
            order["carrier_id"] = request.number
            writes[at] = _encode(order)
            total = 0
            for at, line in zip(*self._lines(tx, district, number, number + 1), strict=True):
                document = decode(line)
                total += document["amount"]
                document["delivery_d"] = request.now
                writes[at], before[at] = _encode(document), line
            self._credit(tx, writes, before, f"{WAREHOUSE}.{district}.{order['c_id']}", total)
            delivered.append((district, number, total))
        if writes:
            self._apply(tx, writes, before, "new_orders", "orders", "order_lines", "customers")
        return delivered

    def _credit(self, tx: EngineTransaction, writes: Writes, before: Writes, customer: str, total: int) -> None:
        """Add the total of a delivered order to the balance of a customer."""
        at = self._places["customers"].documents + _text(customer)
        document = self._to_change(tx, before, at)
        document["balance"] += total
        document["delivery_cnt"] += 1
        writes[at] = _encode(document)

    def _stock_level(self, shown: lowtide.Transaction, request: Request) -> Any:
        tx, places = engine_of(shown), self._places
        district = self._document(tx, {}, places["districts"].documents + _text(f"{WAREHOUSE}.{request.district}"))
        items = self._recent_items(tx, request.district, district["next_o_id"])
        stocks = places["stock"].documents
        found = tx.read_many([stocks + _text(f"{WAREHOUSE}.{item}") for item in items])
        return sum(_quantity(stock or b"")["quantity"] < request.number for stock in found)

    def _recent_items(self, tx: EngineTransaction, district: int, upto: int) -> set[int]:
        """The items of the last twenty orders before the number ``upto``."""
        _, lines = self._lines(tx, district, upto - 20, upto)
        return {_item(line)["i_id"] for line in lines}


def engine_of(tx: lowtide.Transaction) -> EngineTransaction:
    found = statements_of(tx).writable()
    assert found is not None
    return found


def _place(tx: EngineTransaction, name: str) -> Place:
    row, row_key, documents = located(tx, name)
    entries = tx.engine.catalog.prefix_of(row.indexes[0].keyspace) if row.indexes else b""
    return Place(documents, entries, row_key)
