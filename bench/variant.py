"""One store under updates, in its own process.

In a separate process the resident memory is that of one store, and the driver can stop all of it between two portions
of work. Otherwise background checkpoints of a store that waits for its turn would run in time that is not counted. The
driver writes one command per line to its input, and reads one line of JSON in answer.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import IO, TypeVar

import msgspec

from bench import machine
from bench.documents import Pair, make_key
from bench.held import Collector, Holder, open_held

Answer = TypeVar("Answer")

LOAD_LENGTH = 10_000
VALUE_BYTES = 150
TRANSACTION_UPDATES = 100
PAYLOAD_BYTES = len(make_key(0)) + VALUE_BYTES  # the least that one update adds to the log

_FILLER = bytes(random.Random(7).randrange(256) for _ in range(VALUE_BYTES - 16))


@dataclass(frozen=True)
class Sample:
    """The state of a store after a portion of updates."""

    updates: int  # since the start
    seconds: float  # for this portion alone
    rate: float  # updates per second in this portion
    versions: int
    version_bytes: int
    history: int
    log_bytes: int
    resident_bytes: int
    disk_bytes: int


@dataclass(frozen=True)
class Setup:
    """The settings that distinguish one variant from another."""

    title: str
    holder: Holder
    store: str = "lowtide"
    collector: Collector = "exact"
    checkpoint_bytes: int = 64 << 20


class Updater:
    """A store, the updates made to it, and optionally a reader that was opened before the first update."""

    def __init__(self, directory: Path, setup: Setup, keys: int) -> None:
        self._directory = directory
        self._keys = [make_key(number) for number in range(keys)]
        self._latest = [0] * keys  # the serial number of the last update of each key
        self._serial = 0
        self._random = random.Random(1)
        self._store = open_held(directory, setup.store, setup.holder, setup.collector, setup.checkpoint_bytes)
        for start in range(0, keys, LOAD_LENGTH):
            self._store.commit([(key, _value(0)) for key in self._keys[start : start + LOAD_LENGTH]])
        self._store.settle()
        self._held = setup.holder != "nobody"
        if self._held:
            self._store.hold()

    def update(self, count: int) -> Sample:
        numbers = self._random.choices(range(len(self._keys)), k=count)
        keys, commit, serial = self._keys, self._store.commit, self._serial
        started = perf_counter()
        for start in range(0, count, TRANSACTION_UPDATES):
            pairs = []
            for number in numbers[start : start + TRANSACTION_UPDATES]:
                serial += 1
                pairs.append((keys[number], _value(serial)))
            commit(pairs)
        seconds = perf_counter() - started
        for number in numbers:
            self._serial += 1
            self._latest[number] = self._serial
        return self._sample(count, seconds)

    def _sample(self, count: int, seconds: float) -> Sample:
        inside = self._store.inside()
        return Sample(
            updates=self._serial,
            seconds=seconds,
            rate=count / seconds if seconds else 0.0,
            versions=inside.versions,
            version_bytes=inside.version_bytes,
            history=inside.history,
            log_bytes=inside.log_bytes,
            resident_bytes=machine.resident_bytes(),
            disk_bytes=machine.disk_bytes(self._directory),
        )

    def wrong_values(self) -> int:
        """How many keys differ from what the store, and the reader, have to show."""
        wrong = _differences(self._store.then(), self._keys, [0] * len(self._keys)) if self._held else 0
        return wrong + _differences(self._store.now(), self._keys, self._latest)

    def close(self) -> None:
        self._store.close()


def _value(serial: int) -> bytes:
    return b"%016d" % serial + _FILLER


def _differences(found: Iterable[Pair], keys: list[bytes], serials: list[int]) -> int:
    pairs = dict(found)
    missing = sum(pairs.pop(key, None) != _value(serial) for key, serial in zip(keys, serials, strict=True))
    return missing + len(pairs)


class Variant:
    """The driver's side: a store in a child process that runs only while it executes a command."""

    def __init__(self, directory: Path, setup: Setup, keys: int) -> None:
        self.setup = setup
        how = (setup.store, setup.collector, setup.holder, str(setup.checkpoint_bytes))
        command = [sys.executable, "-m", __name__, str(directory), str(keys), *how]
        # A group of its own, so that stopping it also stops processes the store itself may start.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self._answer(int)  # zero, once the store is loaded

    def update(self, count: int) -> Sample:
        return self._ask(f"update {count}", Sample)

    def wrong_values(self) -> int:
        return self._ask("verify", int)

    def __enter__(self) -> "Variant":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._signal(signal.SIGCONT)
            if error is not None:
                self._process.terminate()
            self._pipe(self._process.stdin).close()
            self._process.wait(60)

    def _ask(self, order: str, kind: type[Answer]) -> Answer:
        self._signal(signal.SIGCONT)
        pipe = self._pipe(self._process.stdin)
        pipe.write(order + "\n")
        pipe.flush()
        return self._answer(kind)

    def _answer(self, kind: type[Answer]) -> Answer:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"the store {self.setup.title!r} ended with status {self._process.wait()}")
        self._signal(signal.SIGSTOP)
        return msgspec.json.decode(line, type=kind)

    def _signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.variant", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("keys", type=int)
    parser.add_argument("store")
    parser.add_argument("collector")
    parser.add_argument("holder")
    parser.add_argument("checkpoint_bytes", type=int)
    options = parser.parse_args()
    setup = Setup("", options.holder, options.store, options.collector, options.checkpoint_bytes)
    updater = Updater(options.directory, setup, options.keys)
    _say(0)
    for line in sys.stdin:
        order, *arguments = line.split()
        _say(updater.update(int(arguments[0])) if order == "update" else updater.wrong_values())
    updater.close()


def _say(answer: Sample | int) -> None:
    print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    main()
