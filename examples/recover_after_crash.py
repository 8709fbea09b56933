"""A process is killed while it writes; the reopened store holds every acknowledged commit."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import lowtide


def write_for_ever(directory: str) -> None:
    """The child process: prints each number after the commit that wrote it has returned."""
    store = lowtide.open(directory, durability="full")
    number = 0
    while True:
        with store.transaction() as tx:
            tx.keyspace("numbers").put(b"%08d" % number, b"first half")
            tx.keyspace("halves").put(b"%08d" % number, b"second half")
        print(number, flush=True)
        number += 1


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        child = subprocess.Popen([sys.executable, __file__, directory], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= 100:
                break
        # SIGKILL: no handler runs, nothing is flushed, nothing is closed.
        child.kill()
        acknowledged = [100, *(int(line) for line in child.stdout)]
        child.wait()
        child.stdout.close()

        # Opening the store recovers it.
        with lowtide.open(directory) as store:
            numbers = [int(key) for key, _ in store.keyspace("numbers").scan()]
            halves = [int(key) for key, _ in store.keyspace("halves").scan()]

    lost = set(acknowledged) - set(numbers)
    print(f"acknowledged up to {'100 or more' if acknowledged[-1] >= 100 else acknowledged[-1]}, lost: {len(lost)}")
    print("every commit is whole:", numbers == halves)
    assert not lost
    assert numbers == halves == list(range(len(numbers)))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_for_ever(sys.argv[1])
    main()
