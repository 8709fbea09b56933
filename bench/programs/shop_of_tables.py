"""TPC-C on sqlite3's tables: composite primary keys without rowids, prepared statements, WAL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.programs.requests import DISTRICTS, WAREHOUSE, Request, Row, Size, first_rows
from bench.programs.shop_of_documents import IDS, INDEXES, UnknownItem
from bench.registry import Durability

_SECONDARY = ("customers", "orders")
"""The tables whose index is not their primary key already."""


def connect(file: Path, durability: Durability) -> sqlite3.Connection:
    """WAL; synced is synchronous=FULL, unsynced is NORMAL."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=60, cached_statements=256)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'synced' else 'NORMAL'}")
    return connection


class TableShop:
    """A shop in its own file."""

    def __init__(self, directory: Path, durability: Durability, size: Size) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._connection = connect(directory / "shop.db", durability)
        self._execute = self._connection.execute
        self._names: dict[str, Sequence[str]] = {}
        loaded: dict[str, list[Row]] = {"history": []}
        for table, row in first_rows(size):
            loaded.setdefault(table, []).append(row)
        with self._connection:
            self._execute("BEGIN")
            for table, rows in loaded.items():
                names = list(rows[0]) if rows else ["w_id", "now", "d_id", "c_id", "amount"]
                self._names[table] = names
                key = ", ".join(IDS[table])
                self._execute(f"CREATE TABLE {table} ({', '.join(names)}, PRIMARY KEY ({key})) WITHOUT ROWID")
                self._connection.executemany(self._insert(table), [tuple(row.values()) for row in rows])
            for table in _SECONDARY:
                fields = ", ".join(name for name, _ in INDEXES[table])
                self._execute(f"CREATE INDEX {table}_by ON {table} ({fields})")
        self.settle()
        self._answers = {
            "new_order": self._new_order,
            "payment": self._payment,
            "order_status": self._order_status,
            "delivery": self._delivery,
            "stock_level": self._stock_level,
        }

    def _insert(self, table: str) -> str:
        return f"INSERT INTO {table} VALUES ({', '.join('?' * len(self._names[table]))})"

    def answer(self, request: Request) -> Any:
        self._execute("BEGIN" if request.kind in ("order_status", "stock_level") else "BEGIN IMMEDIATE")
        try:
            found = self._answers[request.kind](request)
        except UnknownItem:
            self._execute("ROLLBACK")
            return None
        self._execute("COMMIT")
        return found

    def _one(self, query: str, values: tuple[Any, ...]) -> Any:
        return self._execute(query, values).fetchone()

    def _new_order(self, request: Request) -> Any:
        one, execute, district = self._one, self._execute, request.district
        (tax,) = one("SELECT tax FROM warehouses WHERE w_id = ?", (WAREHOUSE,))
        query = "SELECT tax, next_o_id FROM districts WHERE w_id = ? AND d_id = ?"
        district_tax, order = one(query, (WAREHOUSE, district))
        change = "UPDATE districts SET next_o_id = next_o_id + 1 WHERE w_id = ? AND d_id = ?"
        execute(change, (WAREHOUSE, district))
        query = "SELECT discount, last, credit FROM customers WHERE w_id = ? AND d_id = ? AND c_id = ?"
        discount, _, _ = one(query, (WAREHOUSE, district, request.by))
        lines, total = [], 0
        for number, (wanted, quantity) in enumerate(request.lines, 1):
            item = one("SELECT price, name, data FROM items WHERE i_id = ?", (wanted,))
            if item is None:
                raise UnknownItem
            query = "SELECT quantity, dist, data FROM stock WHERE w_id = ? AND i_id = ?"
            left = one(query, (WAREHOUSE, wanted))[0] - quantity
            execute(
                "UPDATE stock SET quantity = ?, ytd = ytd + ?, order_cnt = order_cnt + 1 WHERE w_id = ? AND i_id = ?",
                (left if left >= 10 else left + 91, quantity, WAREHOUSE, wanted),
            )
            amount = quantity * item[0]
            total += amount
            lines.append((WAREHOUSE, district, order, number, wanted, quantity, amount, 0))
        execute(self._insert("orders"), (WAREHOUSE, district, order, request.by, request.now, 0, len(lines)))
        execute(self._insert("new_orders"), (WAREHOUSE, district, order))
        self._connection.executemany(self._insert("order_lines"), lines)
        return order, total * (100 - discount) * (100 + tax + district_tax)

    def _customer(self, request: Request) -> Any:
        columns = "SELECT c_id, balance, credit, data, first, street, city, phone FROM customers"
        if isinstance(request.by, int):
            query = f"{columns} WHERE w_id = ? AND d_id = ? AND c_id = ?"
            return self._one(query, (WAREHOUSE, request.district, request.by))
        query = f"{columns} WHERE w_id = ? AND d_id = ? AND last = ? ORDER BY first, c_id"
        found = self._execute(query, (WAREHOUSE, request.district, request.by)).fetchall()
        return found[len(found) // 2] if found else None

    def _payment(self, request: Request) -> Any:
        execute, amount, district = self._execute, request.number, request.district
        customer = self._customer(request)
        if customer is None:
            return None
        number, balance, credit, data = customer[:4]
        execute("UPDATE warehouses SET ytd = ytd + ? WHERE w_id = ?", (amount, WAREHOUSE))
        execute("UPDATE districts SET ytd = ytd + ? WHERE w_id = ? AND d_id = ?", (amount, WAREHOUSE, district))
        change = "balance = balance - ?, ytd_payment = ytd_payment + ?, payment_cnt = payment_cnt + 1"
        where = "WHERE w_id = ? AND d_id = ? AND c_id = ?"
        values: tuple[Any, ...] = (WAREHOUSE, district, number)
        if credit == "BC":
            told = f"{number} {amount} {data}"[:100]
            execute(f"UPDATE customers SET {change}, data = ? {where}", (amount, amount, told, *values))
        else:
            execute(f"UPDATE customers SET {change} {where}", (amount, amount, *values))
        execute(self._insert("history"), (WAREHOUSE, request.now, district, number, amount))
        return number, balance - amount

    def _order_status(self, request: Request) -> Any:
        customer = self._customer(request)
        if customer is None:
            return None
        query = (
            "SELECT o_id, carrier_id, entry_d FROM orders "
            "WHERE w_id = ? AND d_id = ? AND c_id = ? ORDER BY o_id DESC LIMIT 1"
        )
        order, carrier, _ = self._one(query, (WAREHOUSE, request.district, customer[0]))
        query = "SELECT i_id, quantity, amount, delivery_d FROM order_lines WHERE w_id = ? AND d_id = ? AND o_id = ?"
        lines = self._execute(query, (WAREHOUSE, request.district, order)).fetchall()
        return customer[1], order, carrier, sorted(line[0] for line in lines)

    def _delivery(self, request: Request) -> Any:
        execute, one, delivered = self._execute, self._one, []
        for district in range(1, DISTRICTS + 1):
            where = (WAREHOUSE, district)
            query = "SELECT o_id FROM new_orders WHERE w_id = ? AND d_id = ? ORDER BY o_id LIMIT 1"
            oldest = one(query, where)
            if oldest is None:
                continue
            key = (*where, oldest[0])
            execute("DELETE FROM new_orders WHERE w_id = ? AND d_id = ? AND o_id = ?", key)
            (customer,) = one("SELECT c_id FROM orders WHERE w_id = ? AND d_id = ? AND o_id = ?", key)
            change = "UPDATE orders SET carrier_id = ? WHERE w_id = ? AND d_id = ? AND o_id = ?"
            execute(change, (request.number, *key))
            query = "SELECT sum(amount) FROM order_lines WHERE w_id = ? AND d_id = ? AND o_id = ?"
            (total,) = one(query, key)
            change = "UPDATE order_lines SET delivery_d = ? WHERE w_id = ? AND d_id = ? AND o_id = ?"
            execute(change, (request.now, *key))
            execute(
                "UPDATE customers SET balance = balance + ?, delivery_cnt = delivery_cnt + 1 "
                "WHERE w_id = ? AND d_id = ? AND c_id = ?",
                (total, *where, customer),
            )
            delivered.append((district, oldest[0], total))
        return delivered

    def _stock_level(self, request: Request) -> Any:
        where = (WAREHOUSE, request.district)
        (upto,) = self._one("SELECT next_o_id FROM districts WHERE w_id = ? AND d_id = ?", where)
        query = (
            "SELECT count(DISTINCT s.i_id) FROM order_lines l JOIN stock s ON s.w_id = l.w_id AND s.i_id = l.i_id "
            "WHERE l.w_id = ? AND l.d_id = ? AND l.o_id >= ? AND l.o_id < ? AND s.quantity < ?"
        )
        return self._one(query, (*where, upto - 20, upto, request.number))[0]

    def rows(self) -> Iterator[tuple[str, list[Row]]]:
        """Everything it holds, by table."""
        for table in IDS:
            names = self._names[table]
            found = self._execute(f"SELECT * FROM {table}").fetchall()
            yield table, [dict(zip(names, row, strict=True)) for row in found]

    def settle(self) -> None:
        self._execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def close(self) -> None:
        self._connection.close()
