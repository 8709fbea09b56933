"""A savepoint: an error inside it undoes its writes, and the transaction continues."""

from __future__ import annotations

import tempfile

import lowtide

ORDERS = [(b"order-1", b"apples"), (b"order-2", b""), (b"order-3", b"pears")]


def add_order(tx: lowtide.Transaction, order: bytes, goods: bytes) -> None:
    """Writes before it finds an error, as real code does."""
    tx.keyspace("orders").put(order, goods)
    if not goods:
        raise ValueError(f"{order.decode()} is empty")
    stock = tx.keyspace("stock")
    stock.put(goods, b"%d" % (int(stock.get(goods) or 0) - 1))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        store.keyspace("stock").put(b"apples", b"5")
        store.keyspace("stock").put(b"pears", b"5")

        with store.transaction() as tx:
            for order, goods in ORDERS:
                try:
                    with tx.savepoint():
                        add_order(tx, order, goods)
                except ValueError as error:
                    print(f"left out: {error}")

        # One commit, with the two valid orders.
        orders = dict(store.keyspace("orders").scan())
        print("orders:", orders)
        print("stock:", dict(store.keyspace("stock").scan()))
        assert list(orders) == [b"order-1", b"order-3"]


if __name__ == "__main__":
    main()
