"""Processes that the Spark tests send commands to, and kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lowtide.system.identity import identify
from tests.spark.programs.gates import processes_at
from tests.support.patience import PATIENCE
from tests.support.warm import Started, start

Result = TypeVar("Result")


class Refused(Exception):
    """What a command raised in the program; ``kind`` is the name of the error."""

    def __init__(self, kind: str, words: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {words}")


def wait_until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Look again and again until ``condition`` holds; ``what`` says what did not happen."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience:g} seconds: {what}"
        time.sleep(0.01)


def wait_for(gate: Path, count: int, work: Future[Any]) -> set[int]:
    """Wait until the given number of processes of ``work`` have reached a gate. Returns these processes."""
    wait_until(lambda: len(processes_at(gate)) >= count or work.done(), f"{count} processes at the gate {gate.name!r}")
    if work.done():
        work.result()
    assert len(processes_at(gate)) >= count, f"it ended without {count} processes at the gate {gate.name!r}"
    return processes_at(gate)


@contextlib.contextmanager
def in_background(work: Callable[[], Result]) -> Iterator[Future[Result]]:
    """Do something in a thread meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


class Obedient(Protocol):
    """What does as it is asked: a program, or a session in this process."""

    def ask(self, what: str, **more: Any) -> Any: ...


class Program:
    """A program of :mod:`tests.spark.programs`, as the test talks to it.

    A thread listens and puts what it hears into the dictionaries, which only it writes; the test waits for entries. An
    owner is a fork of a process that has imported it; a driver is a process of its own.
    """

    def __init__(self, module: str, *arguments: str, errors: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._errors = errors
        self._answers: dict[int, dict[str, Any]] = {}
        self._asked = 0
        self.also: list[int] = []
        """Further processes that end with this one: the JVM of a driver."""
        self.steps: dict[int, int] = {}
        """The commits that an owner has told of: timestamp -> step."""
        self._ready = False
        program = f"tests.spark.programs.{module}"
        self._child: Started | subprocess.Popen[str]
        with errors.open("ab") as file:
            if module == "owner":
                main = f"from {program} import main; main()"
                self._child = start(main, *arguments, stderr=file.fileno(), imports=(program,))
            else:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", program, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    text=True,
                    env={**environment, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
                )
        threading.Thread(target=self._listen, daemon=True).start()
        self._wait(lambda: self._ready, "start")

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if not line.startswith("{"):
                continue  # Spark's own words
            heard = json.loads(line)
            if "ts" in heard:
                self.steps[heard["ts"]] = heard["step"]
            elif "number" in heard:
                self._answers[heard["number"]] = heard
            else:
                self._ready = True

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        def met() -> bool:
            if not condition():
                assert self._child.poll() is None, f"the program ended: {self.last_words()}"
                return False
            return True

        try:
            wait_until(met, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.last_words()}") from None

    def last_words(self) -> str:
        return self._errors.read_text(errors="replace")[-3000:]

    def tell(self, what: str, **more: Any) -> int:
        """Give a command without waiting for its answer, which has the returned number."""
        self._asked += 1
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"number": self._asked, "what": what, **more}) + "\n")
        self._child.stdin.flush()
        return self._asked

    def answered(self, number: int) -> bool:
        return number in self._answers

    def answer(self, number: int) -> Any:
        """The answer to a command."""
        self._wait(lambda: number in self._answers, f"answer {number}")
        answer = self._answers[number]
        if "error" in answer:
            raise Refused(answer["error"], answer["words"])
        return answer["value"]

    def ask(self, what: str, **more: Any) -> Any:
        return self.answer(self.tell(what, **more))

    def write_on(self, steps: int) -> None:
        """Wait until an owner has committed the given number of further steps."""
        wanted = len(self.steps) + steps
        self._wait(lambda: len(self.steps) >= wanted, f"{steps} commits")

    @property
    def last_step(self) -> int:
        """The last step whose commit was acknowledged."""
        return max(self.steps.values(), default=-1)

    def kill(self, *, alone: bool = False) -> None:
        """kill -9, also of those that end with it, unless it is to go ``alone``; what it told before is still heard."""
        for pid in () if alone else self.also:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._child.kill()
        self._child.wait()

    def finish(self) -> None:
        self.kill()
        if isinstance(self._child, Started):
            self._child.close()
            return
        for stream in (self._child.stdin, self._child.stdout):
            assert stream is not None
            with contextlib.suppress(OSError, ValueError):
                stream.close()


def is_alive(pid: int) -> bool:
    return identify(pid) is not None


class Programs:
    """The programs of one test: ended with it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[Program] = []

    def start(self, module: str, *arguments: object, environment: Mapping[str, str] = os.environ) -> Program:
        errors = self._directory / f"{module}-{len(self._started)}.err"
        program = Program(module, *map(str, arguments), errors=errors, environment=environment)
        self._started.append(program)
        return program

    def owner(self, path: Path, *, place: str = "", **options: Any) -> Program:
        """The owner of a store; one that is killed when it first comes to ``place``, if that is given."""
        return self.start("owner", path, json.dumps(options), place)

    def writing_owner(self, path: Path, size: int) -> Program:
        """The owner of a store that writes a ledger all the time."""
        owner = self.owner(path)
        owner.tell("write", size=size)
        owner.write_on(20)
        return owner

    def driver(self, master: str, **settings: str) -> Program:
        """A driver, with a JVM of its own."""
        return self._with_jvm(self.start("driver", master, self._directory, json.dumps(settings)))

    def driver_of_a_user(self, master: str) -> Program:
        """A driver whose session is not made by Lowtide, in a virtual environment that is not activated: the python3
        of the PATH is another one, which has no Lowtide."""
        other = self._directory / "python3"
        other.write_text("#!/bin/sh\necho 'the wrong python' >&2\nexit 1\n")
        other.chmod(0o700)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
        environment |= {"PATH": f"{self._directory}:{environment['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
        arguments = (master, self._directory, "{}", "--of-a-user")
        return self._with_jvm(self.start("driver", *arguments, environment=environment))

    def _with_jvm(self, driver: Program) -> Program:
        driver.also.append(driver.ask("jvm"))
        return driver

    def finish(self) -> None:
        for each in self._started:
            each.finish()


@contextlib.contextmanager
def programs_in(directory: Path) -> Iterator[Programs]:
    """Programs whose errors and scratch files are in ``directory``."""
    programs = Programs(directory)
    try:
        yield programs
    finally:
        programs.finish()


class Drivers:
    """A driver for several tests, which kill it: a session is slow to start, so one that is left serves the next."""

    def __init__(self, start: Callable[[], Program]) -> None:
        self._start = start
        self._driver: Program | None = None

    def adopt(self, driver: Program) -> None:
        """Let a driver that was started otherwise serve the next test."""
        self._driver = driver

    def running(self) -> Program:
        """The driver that is left, or a new one."""
        if self._driver is None:
            self._driver = self._start()
        return self._driver

    def kill(self, *, alone: bool = False) -> Program:
        """kill -9 of the driver; see :meth:`Program.kill`. Returns what it was."""
        killed = self.running()
        killed.kill(alone=alone)
        self._driver = None
        return killed
