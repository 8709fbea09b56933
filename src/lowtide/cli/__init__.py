"""The command ``lowtide``. It needs typer and rich, which ``import lowtide`` does not: the extra ``cli``."""

from __future__ import annotations

import sys

_MISSING = "lowtide: the command line needs more packages; install them with: pip install 'lowtide[cli]'"


def main() -> None:
    """Run the command that the process's arguments name."""
    try:
        try:
            from lowtide.cli.app import run
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "lowtide":
                raise
            sys.exit(_MISSING)
        run()
    except KeyboardInterrupt:
        sys.exit(130)
