"""The identity of a process, distinct from every other process that had, has or will have its process id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from lowtide.system.identity import Identity, ancestor, identify

WAITS = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until the test ends it."""
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def of(child: subprocess.Popen[bytes]) -> Identity:
    found = identify(child.pid)
    assert found is not None
    return found


def test_a_process_is_the_same_however_often_it_is_asked_for(child: subprocess.Popen[bytes]) -> None:
    assert of(child) == of(child)
    assert of(child) != identify(os.getpid())
    assert not of(child).is_gone


def test_it_is_known_again_after_it_was_stored(child: subprocess.Popen[bytes]) -> None:
    stored = msgspec.msgpack.encode(of(child))
    assert msgspec.msgpack.decode(stored, type=Identity) == of(child)


def test_a_killed_process_is_gone_also_while_nobody_has_asked_for_its_end(child: subprocess.Popen[bytes]) -> None:
    before = of(child)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    assert identify(child.pid) is None
    assert before.is_gone
    child.wait()
    assert before.is_gone


def test_a_later_process_of_the_same_number_is_another(child: subprocess.Popen[bytes]) -> None:
    earlier = msgspec.structs.replace(of(child), began=of(child).began - 1)
    assert earlier.is_gone
    assert not of(child).is_gone


@pytest.mark.parametrize(("boot", "namespace"), [("another", None), (None, "pid:[1]"), ("another", "pid:[1]")])
def test_of_a_process_elsewhere_nobody_can_say_that_it_is_gone(boot: str | None, namespace: str | None) -> None:
    here = identify(os.getpid())
    assert here is not None
    nobody = msgspec.structs.replace(here, pid=2**22 + 1)
    assert nobody.is_gone
    elsewhere = msgspec.structs.replace(nobody, boot=boot or here.boot, namespace=namespace or here.namespace)
    assert not elsewhere.is_gone


def test_a_number_that_nobody_has_is_nobody() -> None:
    assert identify(2**22 + 1) is None  # beyond Linux' largest


def test_a_program_with_any_name_is_read_right(tmp_path: object) -> None:
    """The name stands in brackets, and may have brackets and spaces itself."""
    name = "a) S 1 (b"
    code = f"import os\nopen('/proc/self/comm', 'w').write({name!r})\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = identify(process.pid)
        assert found is not None
        assert not found.is_gone
        process.kill()


def test_the_nearest_process_above_that_runs_a_program_is_found() -> None:
    code = (
        "import subprocess, sys\n"
        "open('/proc/self/comm', 'w').write({name!r})\n"
        "sys.exit(subprocess.run([sys.executable, '-c', {inner!r}]).returncode)"
    )
    asks = "import os; from lowtide.system.identity import ancestor, identify; print(ancestor({!r}) == identify({}))"
    inner = "import os\n" + asks.format("program x", "os.getppid()")
    done = subprocess.run(
        [sys.executable, "-c", code.format(name="program x", inner=inner)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
    assert ancestor("program x") is None
