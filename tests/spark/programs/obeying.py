"""A program that takes commands as JSON, one per line, and answers each with one line when it is done.

Every command runs in its own thread, so several may be in progress when the program is killed. A line is one write to a
pipe, so a kill never cuts a line in two.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any


def tell(**what: Any) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def obey(perform: Callable[..., Any]) -> None:
    """Run commands until the input ends, which it also does when the parent dies. Then exit at once."""
    faulthandler.enable()
    tell(ready=os.getpid())
    for line in sys.stdin:
        threading.Thread(target=_answer, args=(perform, json.loads(line)), daemon=True).start()
    os._exit(0)


def _answer(perform: Callable[..., Any], request: dict[str, Any]) -> None:
    number = request.pop("number")
    try:
        tell(number=number, value=perform(**request))
    except Exception as error:
        traceback.print_exc()
        tell(number=number, error=type(error).__name__, words=str(error))
