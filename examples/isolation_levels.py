"""What a transaction at each isolation level sees of a concurrent commit, and what others see of its writes."""

from __future__ import annotations

import tempfile

import lowtide

ROWS = 1_000
LAST = b"row-0999"


def fill(store: lowtide.Store, value: bytes) -> None:
    with store.transaction() as tx:
        for number in range(ROWS):
            tx.keyspace("data").put(b"row-%04d" % number, value)
        tx.keyspace("data").put(b"counter", value)


def look(store: lowtide.Store, level: lowtide.Isolation) -> tuple[str, ...]:
    fill(store, b"old")
    tx = store.begin(level)
    data = tx.keyspace("data")
    data.get(LAST)
    # The scan has begun when the other transaction commits. It reads in chunks, so its end is yet to come.
    scan = data.scan(prefix=b"row-")
    next(scan)

    fill(store, b"new")

    second_read = data.get(LAST) or b""
    end_of_scan = dict(scan)[LAST]
    data.put(b"counter", b"mine")
    shown = store.keyspace("data").get(b"counter") == b"mine"
    try:
        tx.commit()
        update = "wins"
    except lowtide.ConflictError:
        update = "is refused"
    return second_read.decode(), end_of_scan.decode(), "at once" if shown else "at commit", update


def main() -> None:
    layout = "{:<16}{:<13}{:<13}{:<20}{}"
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory, durability="relaxed") as store:
        print(layout.format("level", "second read", "end of scan", "others see writes", "write to the same key"))
        seen = {level: look(store, level) for level in lowtide.Isolation}
    for level, columns in seen.items():
        print(layout.format(level.value, *columns))
    # Serializable looks like snapshot here; write_skew.py shows the difference.
    assert seen[lowtide.Isolation.SNAPSHOT] == ("old", "old", "at commit", "is refused")


if __name__ == "__main__":
    main()
