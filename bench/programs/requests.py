"""TPC-C: the initial data of a shop, and the stream of requests that it gets. Both are pure functions of a seed.

Amounts are whole cents and times are numbers of requests, so both stores hold equal values.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Row = dict[str, Any]
Kind = Literal["new_order", "payment", "order_status", "delivery", "stock_level"]
KINDS: tuple[Kind, ...] = ("new_order", "payment", "order_status", "delivery", "stock_level")
SHARES = (45, 43, 4, 4, 4)
"""The shares of the requests in percent, as in the standard."""
WAREHOUSE = 1
DISTRICTS = 10
_SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")


@dataclass(frozen=True)
class Size:
    """How much a shop holds."""

    customers: int
    """In each district; each has one order to begin with."""
    items: int


class Request(NamedTuple):
    """One transaction to run. ``by`` is a customer's number, or a last name."""

    kind: Kind
    now: int
    district: int
    by: int | str
    number: int
    """The amount of a payment, the carrier of a delivery, the threshold of a stock level."""
    lines: tuple[tuple[int, int], ...]
    """Of a new order: item and quantity. An item that does not exist makes the shop roll back."""


def last_name(number: int) -> str:
    return "".join(_SYLLABLES[digit] for digit in (number // 100 % 10, number // 10 % 10, number % 10))


def first_rows(size: Size) -> Iterator[tuple[str, Row]]:
    """The rows of a shop before its first request, each with its table."""
    choose = random.Random(size.customers)
    yield "warehouses", {"w_id": WAREHOUSE, "name": "Main", "tax": 7, "ytd": 0}
    for item in range(1, size.items + 1):
        price = choose.randrange(100, 10_000)
        yield "items", {"i_id": item, "name": f"item {item:06d}", "price": price, "data": "x" * 30}
        yield "stock", {
            "w_id": WAREHOUSE, "i_id": item, "quantity": choose.randrange(10, 100), "ytd": 0, "order_cnt": 0,
            "remote_cnt": 0, "dist": "d" * 24, "data": "y" * 40,
        }  # fmt: skip
    for district in range(1, DISTRICTS + 1):
        place = {"w_id": WAREHOUSE, "d_id": district}
        yield "districts", place | {"tax": district, "ytd": 0, "next_o_id": size.customers + 1}
        for number in range(1, size.customers + 1):
            yield "customers", place | {
                "c_id": number, "first": f"first{choose.randrange(10_000):05d}", "middle": "OE",
                "last": last_name(choose.randrange(size.customers)), "street": f"{number} High Street",
                "city": "Husum", "phone": f"{number:016d}", "credit": "BC" if number % 10 == 0 else "GC",
                "discount": number % 50, "balance": -1000, "ytd_payment": 1000, "payment_cnt": 1, "delivery_cnt": 0,
                "data": "z" * 100,
            }  # fmt: skip
            delivered = number <= size.customers * 7 // 10
            length = choose.randrange(5, 16)
            yield "orders", place | {
                "o_id": number, "c_id": number, "entry_d": 0, "carrier_id": 1 if delivered else 0, "ol_cnt": length,
            }  # fmt: skip
            if not delivered:
                yield "new_orders", place | {"o_id": number}
            for line in range(1, length + 1):
                yield "order_lines", place | {
                    "o_id": number, "number": line, "i_id": choose.randrange(1, size.items + 1), "quantity": 5,
                    "amount": 0 if delivered else choose.randrange(1, 999_999), "delivery_d": 1 if delivered else 0,
                }  # fmt: skip


def stream(size: Size, seed: int, count: int) -> list[Request]:
    """The requests of one round."""
    choose = random.Random(seed)
    found = []
    for at in range(count):
        (kind,) = choose.choices(KINDS, SHARES)
        district = choose.randrange(1, DISTRICTS + 1)
        by: int | str = choose.randrange(1, size.customers + 1)
        if kind in ("payment", "order_status") and choose.random() < 0.6:
            by = last_name(choose.randrange(size.customers))
        number = {"payment": choose.randrange(100, 500_000), "delivery": choose.randrange(1, 11)}.get(kind, 15)
        lines: tuple[tuple[int, int], ...] = ()
        if kind == "new_order":
            items = choose.sample(range(1, size.items + 1), choose.randrange(5, 16))
            lines = tuple((item, choose.randrange(1, 11)) for item in items)
            if choose.random() < 0.01:
                lines = (*lines, (size.items + 1, 1))
        found.append(Request(kind, seed * 1_000_000 + at, district, by, number, lines))
    return found
