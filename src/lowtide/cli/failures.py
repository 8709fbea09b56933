"""How a command ends: its exit code and its error message. Users get no tracebacks.

====  ==============================================================================================================
code  meaning ====
============================================================================================================== 0
success 1     failure: an error, an invalid document, or problems found by ``verify`` or ``audit`` 2     wrong usage:
there is no store, an option is unknown, a name does not exist 3     success that needs attention: ``pipeline`` found
gaps, quarantined rows or anomalies 130   interrupted, by Ctrl-C 141   the reader of the output closed the pipe 143
ended by SIGTERM, after a step of ``pipeline``; the next run continues from there ====
==============================================================================================================
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec

import typer

from lowtide.cli.words import clean
from lowtide.engine import LmdbError
from lowtide.errors import BulkWriteError, Error, UsageError, WriteError

FAILED, WRONG, ATTENTION, INTERRUPTED, UNREAD, ENDED = 1, 2, 3, 130, 141, 143

_Arguments = ParamSpec("_Arguments")


def guarded(command: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """Wrap ``command`` so that it always ends with an exit code. A bug in Lowtide still shows its traceback."""

    @functools.wraps(command)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(UNREAD) from None
        except (WriteError, BulkWriteError) as error:  # the documents are at fault, not the command
            fail(error, FAILED)
        except UsageError as error:
            fail(error, WRONG)
        except (Error, LmdbError) as error:
            fail(error, FAILED)
        except OSError as error:
            where = f"{error.filename}: " if error.filename is not None else ""
            fail(f"{where}{error.strerror or error}", FAILED)

    return run


def fail(words: object, code: int) -> NoReturn:
    """End the command with this message on standard error."""
    typer.echo("\n".join(clean(line) for line in f"lowtide: {words}".split("\n")), err=True)
    raise typer.Exit(code)


def _drop_output() -> None:
    """Discard buffered output, so that no error is reported for it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
