"""Ending background threads."""

from __future__ import annotations

import threading


def join(thread: threading.Thread) -> None:
    """Wait for a thread that was asked to end.

    It returns at once in that thread itself, where the cyclic collector may find a dropped store. It also returns at
    once for a thread that was never started, or whose start was interrupted: that thread ends before it does anything.
    """
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join()
