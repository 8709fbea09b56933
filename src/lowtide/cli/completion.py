"""Completion for the shell: commands, options, collections, fields and operators."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lowtide.cli.lines import Unfinished, words_of
from lowtide.documents.aggregation.accumulators import ACCUMULATORS
from lowtide.documents.aggregation.expressions import OPERATORS as EXPRESSIONS
from lowtide.errors import UsageError

_FILTERS: Final = (
    "$eq $ne $gt $gte $lt $lte $in $nin $and $or $nor $not $exists $type $mod $regex $options $all $elemMatch $size"
)
_UPDATES: Final = (
    "$set $unset $inc $mul $min $max $rename $setOnInsert $currentDate $push $each $slice $sort $position $addToSet "
    "$pull $pullAll $pop $bit"
)
_STAGES: Final = (
    "$match $project $addFields $unwind $group $sort $skip $limit $count $lookup $facet $bucket $sample $replaceRoot"
)
OPERATORS: Final[Mapping[str, tuple[str, ...]]] = {
    "find": tuple(_FILTERS.split()),
    "count": tuple(_FILTERS.split()),
    "delete": tuple(_FILTERS.split()),
    "export": tuple(_FILTERS.split()),
    "indexes": tuple(_FILTERS.split()),
    "update": tuple(dict.fromkeys([*_UPDATES.split(), *_FILTERS.split()])),
    "aggregate": tuple(dict.fromkeys([*_STAGES.split(), *_FILTERS.split(), *ACCUMULATORS, *EXPRESSIONS])),
}
"""The operators that the JSON of a command may contain."""

_LAST = re.compile(r"(?P<quote>\"?)(?P<word>\$?[\w.\-]*)$")


@dataclass(frozen=True, slots=True)
class Known:
    """What can be completed: commands with their options, and functions that list collections and fields."""

    commands: Mapping[str, tuple[str, ...]]
    with_collection: frozenset[str]
    with_file: frozenset[str]
    collections: Callable[[], Iterable[str]]
    fields: Callable[[str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Offer:
    """A completion, which replaces the last ``length`` characters of the line."""

    text: str
    length: int


def offers(line: str, known: Known, behind: str = "") -> Iterator[Offer]:
    """The completions at the end of ``line``, if it is followed by ``behind``."""
    whole = line.lstrip()
    command = command_of(whole, known.commands)
    if command is None:
        for name in (*known.commands, "help", "exit"):
            if name.startswith(whole):
                yield Offer(name, len(whole))
        return
    if command == "sql":
        yield from _matching(_last_word(whole), [*known.collections()])
        return
    rest = whole[len(command) :]
    try:
        words = words_of(rest)
    except Unfinished:
        yield from _inside(rest, command, known, "" if behind.startswith('"') else '"')
        return
    except UsageError:
        return
    current = "" if not rest or rest[-1].isspace() else words[-1]
    before = words if not current else words[:-1]
    if current.startswith("-"):
        yield from _matching(current, known.commands[command])
    elif not before and command in known.with_collection:
        yield from _matching(current, known.collections())
    elif len(before) == 1 and command in known.with_file:
        yield from _matching(current, _files(current))
    elif before and before[-1] in ("--fields", "-f", "--sort", "-s", "--create"):
        names = known.fields(before[0]) if command in known.with_collection else ()
        yield from _matching(re.split(r"[,\-]", current)[-1], names)


def command_of(line: str, commands: Iterable[str]) -> str | None:
    """The command at the beginning of a line, if it is complete; the longest name that fits."""
    fitting = [name for name in commands if line.startswith(f"{name} ")]
    return max(fitting, key=len, default=None)


def _inside(rest: str, command: str, known: Known, closing: str) -> Iterator[Offer]:
    """Completions inside unclosed JSON. Names are in quotes; ``closing`` is the second quote, if it is missing."""
    found = _LAST.search(rest)
    if found is None or not found[0]:
        return
    word, quoted = found["word"], bool(found["quote"]) or _in_string(rest[: found.start()])
    collection = rest.split(maxsplit=1)[0]
    names = OPERATORS.get(command, ()) if word.startswith("$") else sorted(known.fields(collection))
    for name in names:
        if name.startswith(word):
            yield Offer(f"{name}{closing}" if quoted else f'"{name}"', len(word))


def _in_string(text: str) -> bool:
    return len(re.findall(r'(?<!\\)"', text)) % 2 == 1


def _last_word(text: str) -> str:
    found = re.search(r"[\w.\-]*$", text)
    return found[0] if found else ""


def _matching(word: str, names: Iterable[str]) -> Iterator[Offer]:
    for name in sorted(names):
        if name.startswith(word):
            yield Offer(name, len(word))


def _files(beginning: str) -> list[str]:
    pattern = glob.escape(os.path.expanduser(beginning)) + "*"
    return [f"{path}/" if os.path.isdir(path) else path for path in glob.glob(pattern)]
