"""``lowtide shell``: commands without the name of the store, at a prompt or from a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import typer

import lowtide
from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.completion import Known, command_of
from lowtide.cli.failures import INTERRUPTED, WRONG, fail
from lowtide.cli.lines import Unfinished, words_of
from lowtide.cli.reach import find_store, reading, settings
from lowtide.documents.files.streams import STANDARD
from lowtide.errors import Error, UsageError

_SAMPLE = 200
"""The number of documents that are read for field names."""
_ENDS = ("exit", "quit")
_READERS = ("import", "insert", "schema")
"""Commands that may read standard input."""
HELP = """\
Commands are those of the command line, without the name of the store:
  find users {"age": {"$gt": 3}} --limit 5
  update users {"_id": 1} {"$set": {"age": 4}}
  sql select city, count(*) from users group by city
help COMMAND describes one of them; exit, or Ctrl-D, ends the shell."""


def shell(context: typer.Context, path: StorePath, json: Json = False) -> None:
    """Open a prompt for commands on one store, with completion and history; or run commands from a pipe."""
    store = find_store(path)
    session = Session(store, context.find_root().command, json)
    if sys.stdin.isatty():
        _converse(session)
    else:
        code = run_script(session, sys.stdin)
        if code:
            raise typer.Exit(code)


class Session:
    """The commands on one store."""

    def __init__(self, store: Path, command: Any, json: bool) -> None:
        self.store = store
        self._json = json
        self._command = command
        self.commands = dict(_leaves(command))
        self._names: list[str] | None = None
        self._fields: dict[str, list[str]] = {}

    def run(self, text: str) -> int:
        """Run one command; return its exit code. Output and messages go where those of any command go."""
        self._names, self._fields = None, {}
        try:
            words = words_of(text)
            if words[:1] == ["help"]:
                return self._help(words[1:])
            name = command_of(" ".join(words[:2]) + " ", self.commands)
            if name is None:
                raise UsageError(f"there is no command {words[0]!r} in the shell; help lists the commands")
            if name in _READERS and STANDARD in words:
                raise UsageError("the shell reads its commands from standard input; name a file")
        except Unfinished:
            return _told("the command is incomplete: a bracket or a quote is open")
        except UsageError as error:
            return _told(error)
        size = len(name.split())
        more = ["--json"] if self._json and "--json" not in words else []
        return self._call(*words[:size], str(self.store), *words[size:], *more)

    def _call(self, *arguments: str) -> int:
        try:
            self._command.main(["--timeout", str(settings.patience), *arguments], prog_name="lowtide")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except KeyboardInterrupt:
            return INTERRUPTED
        return 0

    def _help(self, words: list[str]) -> int:
        name = " ".join(words)
        if name:
            if name not in self.commands:
                raise UsageError(f"there is no command {name!r}; help lists the commands")
            print(self._help_of(name))
            return 0
        print(HELP)
        width = max(map(len, self.commands))
        for each, command in self.commands.items():
            print(f"  {each:<{width}}  {(command.help or '').split(chr(10))[0]}")
        return 0

    def _help_of(self, name: str) -> str:
        """The help of a command in the shell, without the argument for the store."""
        command = copy(self.commands[name])
        command.params = command.params[1:]
        found: str = command.get_help(typer.Context(command, info_name=name))
        return found

    def known(self) -> Known:
        """What can be completed."""
        arguments = {name: {each.name for each in command.params} for name, command in self.commands.items()}
        return Known(
            commands={
                name: tuple(option for each in command.params for option in each.opts if option.startswith("--"))
                for name, command in self.commands.items()
            },
            with_collection=frozenset(name for name, each in arguments.items() if "collection" in each),
            with_file=frozenset(name for name, each in arguments.items() if "file" in each),
            collections=self._collections,
            fields=self._fields_of,
        )

    def _collections(self) -> list[str]:
        if self._names is None:
            self._names = []
            with contextlib.suppress(Error, OSError), reading(self.store) as opened:
                self._names = list(opened.list_collection_names())
        return self._names

    def _fields_of(self, collection: str) -> list[str]:
        if collection not in self._fields:
            found: dict[str, None] = {}
            with contextlib.suppress(Error, OSError), reading(self.store) as opened:
                for document in opened.collection(collection).find({}, limit=_SAMPLE):
                    found.update(dict.fromkeys(_paths(document)))
            self._fields[collection] = list(found)
        return self._fields[collection]


def _paths(document: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in document.items():
        yield before + name
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{name}.")


def _leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The commands that take a store, by name."""
    for each, inner in command.commands.items():
        full = f"{name} {each}".strip()
        if hasattr(inner, "commands"):
            yield from _leaves(inner, full)
        elif inner.params and inner.params[0].name == "path" and full != "shell":
            yield full, inner


def _told(words: object) -> int:
    with contextlib.suppress(typer.Exit):
        fail(words, WRONG)
    return WRONG


def run_script(session: Session, lines: Iterable[str]) -> int:
    """Run the commands of a script; return 0, or the exit code of the first that fails, which ends the script. A
    command may have several lines; a line that begins with # is a comment."""
    text = ""
    for line in lines:
        if not text and (not line.strip() or line.lstrip().startswith("#")):
            continue
        text += line
        try:
            words = words_of(text)
        except Unfinished:
            continue
        except UsageError as error:
            return _told(error)
        if words[0] in _ENDS:
            return 0
        code = session.run(text)
        if code:
            return code
        text = ""
    return session.run(text) if text.strip() else 0


def _converse(session: Session) -> None:
    try:
        from lowtide.cli.prompt import ask
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prompt_toolkit":
            raise
        raise UsageError("the shell needs one more package; install it with: pip install 'lowtide[cli]'") from error
    print(f"lowtide {lowtide.__version__}, {session.store}: help lists the commands, exit or Ctrl-D ends")
    for text in ask(session.store.name, session.known(), history_file()):
        if text.split()[0] in _ENDS:
            return
        session.run(text)


def history_file() -> Path | None:
    """The history file, which only its user can read; None if it cannot be created."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = Path(base) / "lowtide" / "history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return path
