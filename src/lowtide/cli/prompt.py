"""The prompt of the shell, with completion, history, and input over several lines while brackets are open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from lowtide.cli.completion import Known, offers
from lowtide.cli.lines import is_unfinished


class _Offers(Completer):
    def __init__(self, known: Known) -> None:
        self._known = known

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for offer in offers(document.text_before_cursor, self._known, document.text_after_cursor):
            yield Completion(offer.text, start_position=-offer.length)


def ask(name: str, known: Known, history: Path | None) -> Iterator[str]:
    """Yield the commands that the user types, until the end of input."""
    kept: History = InMemoryHistory() if history is None else FileHistory(str(history))
    session: PromptSession[str] = PromptSession(
        f"{name}> ",
        completer=_Offers(known),
        complete_in_thread=True,
        complete_while_typing=False,
        history=kept,
        auto_suggest=AutoSuggestFromHistory(),
        multiline=Condition(lambda: is_unfinished(get_app().current_buffer.text)),
        prompt_continuation=lambda width, number, wrapped: "." * (width - 1) + " ",
    )
    while True:
        try:
            text = session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip():
            yield text
