"""The first minute: open a directory, put, get, scan, and change two keys in one transaction."""

from __future__ import annotations

import tempfile

import lowtide


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        # Each call on the store's keyspace is a transaction of its own.
        cities = store.keyspace("cities")
        cities.put(b"lisbon", b"545000")
        cities.put(b"porto", b"232000")
        cities.put(b"braga", b"193000")
        print("lisbon:", cities.get(b"lisbon"))
        print("faro:", cities.get(b"faro"))

        # Keys are sorted; a scan takes a range or a prefix.
        print("from b to m:", [key.decode() for key, _ in cities.scan(b"b", b"m")])

        # Both changes happen, or neither does. An error inside the block rolls back.
        with store.transaction() as tx:
            tx.keyspace("cities").put(b"faro", b"67000")
            tx.keyspace("cities").delete(b"braga")
        print("all:", [key.decode() for key, _ in cities.scan()])

        try:
            with store.transaction() as tx:
                tx.keyspace("cities").delete(b"lisbon")
                raise RuntimeError("changed my mind")
        except RuntimeError as error:
            print(f"{error}: lisbon is still {cities.get(b'lisbon')!r}")


if __name__ == "__main__":
    main()
