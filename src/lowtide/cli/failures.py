"""How a command ends: its exit code, and its last words. Users get no tracebacks.

====  ==============================================================================================================
code  meaning
====  ==============================================================================================================
0     it is done
1     it failed, a document was refused, or ``verify`` or ``audit`` found problems
2     the request is wrong: no store is there, an option is unknown, a name does not exist
130   interrupted, by Ctrl-C
141   the reader of the output went away
====  ==============================================================================================================
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

FAILED, WRONG, INTERRUPTED, UNREAD = 1, 2, 130, 141

_Arguments = ParamSpec("_Arguments")


def guarded(command: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """``command``, ending in an exit code whatever happens in it. A fault of Lowtide itself still shows its trace."""

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
        except (WriteError, BulkWriteError) as error:  # it is the documents that are in the way
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
    """End the command with these words on standard error."""
    typer.echo("\n".join(clean(line) for line in f"lowtide: {words}".split("\n")), err=True)
    raise typer.Exit(code)


def _drop_output() -> None:
    """Let nothing complain at the end that what is left in the buffer cannot be written."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
