"""Runs of the archiver beside a store that is written constantly, while processes are killed.

At the end the archive is compared with the model of the store's ledger: at each commit it must hold exactly the
documents that the step left, each version once.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from lowtide.pipeline.tables.columns import DELETE, KEY, KIND, RAW, VERSION
from lowtide.values.extended import loads
from lowtide.values.ids import id_of
from tests.spark.archives import rows_in
from tests.spark.processes import Drivers, Obedient, Programs, Refused, wait_until
from tests.spark.programs.ledger import COLLECTION, Model

SIZE = 200
_ENDLESS = 10_000
TABLE = f"collections/{COLLECTION}"


def check_ledger(archive: Path, size: int, last: int) -> int:
    """Hold an archive to the model, commit by commit; returns the last step in it, which is ``last`` at least."""
    versions: dict[int, list[tuple[int, int | None]]] = {}
    for row in rows_in(archive)[TABLE]:
        value = None if row[KIND] == DELETE else loads(row[RAW])["n"]
        versions.setdefault(row[VERSION], []).append((id_of(bytes.fromhex(row[KEY])), value))
    model = Model(size)
    first, *further = sorted(versions)
    step = dict(versions[first])[0] or 0
    model.at(step)
    assert dict(versions[first]) == model.documents, "it begins with all documents of one commit"
    for version in further:
        found = dict(versions[version])
        assert len(found) == len(versions[version]), f"commit {version} has a document twice"
        step, before = found[0] or 0, dict(model.documents)
        assert step == model.step + 1, f"step {model.step + 1} is missing before commit {version}"
        model.at(step)
        gone = {key: None for key in before if key not in model.documents}
        changed = {key: value for key, value in model.documents.items() if before.get(key) != value}
        assert {**gone, **changed}.items() <= found.items(), f"step {step} is not whole"
        assert all(model.documents.get(key) == value for key, value in found.items()), f"step {step} has too much"
    assert step >= last
    return step


def executors_below(pid: int) -> list[int]:
    """The executors' JVMs of a local-cluster, which are below the driver's."""
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if b"CoarseGrainedExecutorBackend" in (each / "cmdline").read_bytes() and pid in _ancestors(int(each.name)):
                found.append(int(each.name))
    return sorted(found)


def tasks_below(pid: int) -> list[int]:
    """The Python processes that run tasks below a driver. Those that start them are not among them: Spark does not
    notice that one of these is gone, and the next call that needs it fails."""
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            above = _ancestors(int(each.name))
            if _is_of_spark(int(each.name)) and _is_of_spark(next(above)) and pid in above:
                found.append(int(each.name))
    return sorted(found)


def _is_of_spark(pid: int) -> bool:
    return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Kills:
    """A store with an owner that writes, an archiver that runs again and again, and kills at random moments."""

    def __init__(self, programs: Programs, drivers: Drivers, directory: Path, seed: int) -> None:
        self._programs = programs
        self.store, self.archive = directory / "store", directory / "archive"
        self._chance = random.Random(seed)
        self._drivers = drivers
        self._owner = programs.writing_owner(self.store, SIZE)
        self.done: dict[str, int] = {}

    def strike(self, what: str, until: Callable[[], object] | None = None) -> None:
        """Kill something at a random moment of a run: the owner, the driver or a task. With ``until`` it is the moment
        when that returns, and until then runs follow each other."""
        driver = self._drivers.running()
        runs = 1 if until is None else _ENDLESS
        run = driver.tell("archive", store=str(self.store), archive=str(self.archive), runs=runs)
        files = len(self._files())
        patience = self._chance.choice([0, 1, 2, 3])
        wait_until(lambda: driver.answered(run) or len(self._files()) >= files + patience, "a run to get so far")
        if until is not None:
            until()
        self.done[what] = self.done.get(what, 0) + 1
        if what == "owner":
            self._owner.kill()
            self._owner = self._programs.writing_owner(self.store, SIZE)
        elif what == "driver":
            self._drivers.kill()
            return
        else:
            victims = tasks_below(driver.also[0])
            if victims:
                kill(self._chance.choice(victims))
        with contextlib.suppress(Refused):  # a run may fail then; the next one goes on
            driver.answer(run)

    def _files(self) -> list[Path]:
        return list((self.archive / "collections").glob("*/*.parquet"))

    def finish(self, progress: Callable[[str], object] = bool, driver: Obedient | None = None) -> int:
        """Run once more, with nothing in the way, and check everything; returns the number of steps."""
        last = self._owner.last_step
        self._owner.ask("close")
        (driver or self._drivers.running()).ask("archive", store=str(self.store), archive=str(self.archive))
        progress("checking the archive")
        return check_ledger(self.archive, SIZE, last)
