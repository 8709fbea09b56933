"""Starts Python processes quickly: as forks of a process that has imported Lowtide and, if not asked for more, nothing
else.

Tests start hundreds of processes, and each would spend most of its time on imports. ``python -m tests.support.warm FD
MODULE ...`` is the process that forks. Each process of a test run has one, and another one for each list of further
modules that it asks for. It has never opened a store and has one thread, so a fork of it is as good as a new
interpreter. A fork gets the directory, the environment and the module path of the caller. When its program has ended it
does what a program is promised, and leaves: to take all modules apart takes as long as many a test. The process ends
when its socket is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from typing import IO, Any, NoReturn

_LONGEST = 1 << 20
"""Bytes of a request: the program and the environment."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Without these settings NumPy and PyArrow start threads when they are imported."""


class Started:
    """A process that was started, as subprocess.Popen shows one. Its standard input and output are pipes of text."""

    def __init__(self, pid: int, stdin: IO[str], stdout: IO[str], forking: _Forking) -> None:
        self.pid = pid
        self._forking = forking
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self._ended = os.pidfd_open(pid)  # readable once it has ended
        self._one = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code, which is minus the signal if it was one."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if until is None else max(0.0, until - time.monotonic())
            if self._has_ended(left):
                self._reap()
            elif left == 0.0:
                raise subprocess.TimeoutExpired(["python"], timeout or 0.0)
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self.returncode is None and self._has_ended(0.0):
            self._reap()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended: until wait() its id belongs to it."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Kill it if it still lives, and close its pipes."""
        self.kill()
        self.wait()
        for stream in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        os.close(self._ended)

    def _reap(self) -> None:
        """Its id is free afterwards. Another thread may have done it."""
        with self._one:
            if self.returncode is None:
                self.returncode = os.waitstatus_to_exitcode(self._forking.ask({"wait": self.pid}, []))

    def _has_ended(self, timeout: float | None) -> bool:
        return bool(select.select([self._ended], [], [], timeout)[0])


def start(program: str, *arguments: object, stderr: int = 2, imports: tuple[str, ...] = ()) -> Started:
    """Run ``program`` in a process of its own, with this process's environment and path of modules. Its errors go to
    the file descriptor ``stderr``. The modules ``imports`` are imported before it starts, once for all of them."""
    forking = _forking_of(os.getpid(), imports)
    stdin, there_in = os.pipe()
    there_out, stdout = os.pipe()
    asked = {
        "program": program,
        "arguments": ["-c", *map(str, arguments)],
        "environment": {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        "path": sys.path,
        "directory": os.getcwd(),
    }
    try:
        pid = forking.ask(asked, [stdin, stdout, stderr])
    finally:
        os.close(stdin)
        os.close(stdout)
    return Started(pid, open(there_in, "w"), open(there_out), forking)


class _Forking:
    """The process that forks, seen from the process that uses it."""

    def __init__(self, imports: tuple[str, ...]) -> None:
        self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, there):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        self._one = threading.Lock()
        self._pid = os.getpid()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(there.fileno()), *imports],
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env={**os.environ, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

        atexit.register(self._end)

    def ask(self, asked: dict[str, Any], descriptors: list[int]) -> int:
        with self._one:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], descriptors)
            answer = self._socket.recv(100)
        assert answer, "the process that forks has ended"
        return int(answer)

    def _end(self) -> None:
        if self._pid == os.getpid():
            self._socket.close()
            self._process.wait()


@functools.cache
def _forking_of(pid: int, imports: tuple[str, ...]) -> _Forking:
    """That of the process ``pid``, this one: a fork of a test run has another."""
    return _Forking(imports)


def _become(asked: dict[str, Any], descriptors: list[int]) -> None:
    """In the fork: behave like a new interpreter that runs the program."""
    for number, given in enumerate(descriptors):
        os.dup2(given, number)
        os.close(given)
    # The streams of the process that forks know of its own files, such as whether they can be seeked.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    unbuffered: Any = io.FileIO(2, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(unbuffered, errors="backslashreplace", write_through=True)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[:] = asked["path"]
    sys.argv[:] = asked["arguments"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    code: object = 0
    try:
        exec(compile(asked["program"], "<string>", "exec"), main.__dict__)
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code
    if isinstance(code, int):
        _leave(code)
    sys.exit(str(code))


def _leave(code: int) -> NoReturn:
    """End as an interpreter does: other threads end, what was registered for the end is done, all is written."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        sys.exit(code)  # which tells of it
    os._exit(code & 0xFF)


def main() -> None:
    for name in ("lowtide.store.opening", *sys.argv[2:]):
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not fork"
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        while True:
            message, descriptors, _, _ = socket.recv_fds(asking, _LONGEST, 3)
            if not message:
                return
            asked = json.loads(message)
            if "wait" in asked:
                answer = os.waitpid(asked["wait"], 0)[1]
            else:
                answer = os.fork()
                if answer == 0:
                    break
                for each in descriptors:
                    os.close(each)
            asking.send(b"%d" % answer)
    _become(asked, descriptors)


if __name__ == "__main__":
    main()
