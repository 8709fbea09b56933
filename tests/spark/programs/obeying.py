"""A program that obeys: commands come as JSON, one to a line, and each is answered by one line when it is done.

Every command runs in a thread of its own, so several may be under way when the program is killed. A line is one write
to a pipe: a kill cuts none in two.
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
    """Do what is asked until the input ends, which it also does when whoever asks dies; then end at once."""
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
