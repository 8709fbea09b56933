"""Write skew: two doctors go off call at once, each seeing the other on call. Serializable prevents it."""

from __future__ import annotations

import tempfile
from typing import Literal

import lowtide


def go_off_call(tx: lowtide.Transaction, doctor: bytes) -> None:
    """The rule: one doctor stays on call."""
    doctors = tx.keyspace("doctors")
    on_call = [name for name, state in doctors.scan() if state == b"on call"]
    if len(on_call) >= 2:
        doctors.put(doctor, b"off")


def both_go(store: lowtide.Store, isolation: Literal["snapshot", "serializable"]) -> list[bytes]:
    """Both transactions read before either commits. Returns the doctors on call afterwards."""
    with store.transaction() as tx:
        tx.keyspace("doctors").put(b"alice", b"on call")
        tx.keyspace("doctors").put(b"bruno", b"on call")

    first = store.begin(isolation)
    second = store.begin(isolation)
    go_off_call(first, b"alice")
    go_off_call(second, b"bruno")
    first.commit()
    try:
        second.commit()
    except lowtide.ConflictError as conflict:
        print(f"{isolation}: the second commit was refused: {conflict}")
        # The retry sees that Alice has gone, and Bruno stays.
        store.run(lambda tx: go_off_call(tx, b"bruno"), isolation=isolation)
    return [name for name, state in store.keyspace("doctors").scan() if state == b"on call"]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        # They wrote different keys, so first-committer-wins finds nothing wrong.
        at_snapshot = both_go(store, "snapshot")
        print("snapshot: on call afterwards:", at_snapshot)
        at_serializable = both_go(store, "serializable")
        print("serializable: on call afterwards:", at_serializable)
        assert at_snapshot == []
        assert at_serializable == [b"bruno"]


if __name__ == "__main__":
    main()
