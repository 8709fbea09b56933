"""Messages from the processes of a soak to the one that started them: one JSON list per line, on standard output.

A line is one write to a pipe, so a kill never cuts a line, and messages sent before a kill are still received.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

import lowtide


class Broken(Exception):
    """A violated invariant: its name, and what was found."""

    def __init__(self, invariant: str, found: object) -> None:
        self.invariant = invariant
        self.found = str(found)
        super().__init__(f"{invariant}: {found}")


def tell(kind: str, *values: object) -> None:
    os.write(1, (json.dumps([kind, *values]) + "\n").encode())


def watch_for_the_end() -> threading.Event:
    """An event that is set when the parent closes our input or dies; this process must then end."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    ending = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ending.set()

    threading.Thread(target=wait, daemon=True).start()
    return ending


def repeat(ending: threading.Event, work: Callable[[], object], *, allowed: tuple[type[Exception], ...] = ()) -> None:
    """Do ``work`` until the end. What it breaks is told; errors that ask for another attempt are counted by the
    parent, those that are ``allowed`` ignored, and every other one is told as what it is: an error that must not be."""
    while not ending.is_set():
        try:
            work()
        except Broken as broken:
            tell("broken", broken.invariant, broken.found)
        except lowtide.TransientError as error:
            tell("retried", type(error).__name__)
        except allowed as error:
            tell("refused", type(error).__name__)
            ending.wait(0.05)
        except Exception:
            if not ending.is_set():
                tell("broken", "no error but those that are promised", traceback.format_exc())
                time.sleep(0.2)
