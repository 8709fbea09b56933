"""What a transaction of each isolation level sees when another one commits in the middle of it."""

from __future__ import annotations

import tempfile

import lowtide


def look(store: lowtide.Store, level: lowtide.Isolation) -> tuple[str, str, str]:
    """What becomes of another's commit: in a second read, in a scan under way, in an update of the same key."""
    with store.transaction() as tx:
        for key in (b"a", b"b", b"counter"):
            tx.keyspace("data").put(key, b"old")

    tx = store.begin(level)
    data = tx.keyspace("data")
    data.get(b"a")
    scan = data.scan()
    next(scan)

    with store.transaction() as other:
        for key in (b"a", b"b", b"counter"):
            other.keyspace("data").put(key, b"new")

    second_read = data.get(b"a")
    rest_of_scan = dict(scan)[b"b"]
    data.put(b"counter", b"mine")
    try:
        tx.commit()
    except lowtide.ConflictError:
        update = "refused"
    else:
        update = "overwrites"
    return (second_read or b"").decode(), rest_of_scan.decode(), update


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        print(f"{'level':<16}{'second read':<14}{'open scan':<12}{'update of the same key'}")
        for level in lowtide.Isolation:
            second_read, rest_of_scan, update = look(store, level)
            print(f"{level.name.lower():<16}{second_read:<14}{rest_of_scan:<12}{update}")
        # Serializable looks like snapshot here; write_skew.py shows what sets them apart.


if __name__ == "__main__":
    main()
