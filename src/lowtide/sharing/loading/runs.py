"""Reads staged documents in the order of their keys, whatever the order in which tasks have staged them.

A task sorts what it stages, ``staged.RUN_BYTES`` at a time. So a file consists of *runs*: sequences of batches, each of
which begins after the last key of the previous one. Runs are merged a block at a time. One batch of each run is in
memory, so the number of runs bounds the memory. A task whose rows are sorted stages a single run, however many rows it
has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from lowtide.sharing.loading.job import StagedFile
from lowtide.sharing.loading.staged import key_bounds, staged_batches

MOST_RUNS: Final = 128
"""Maximum number of runs that are merged at once; a batch of each is in memory."""

Batch = tuple[list[bytes], list[bytes]]
"""Keys, and their documents in the same order."""
_KEY: Final = itemgetter(0)


class StagedRun(NamedTuple):
    """Batches ``[begin, end)`` of a file."""

    file: StagedFile
    begin: int
    end: int


def runs_of(directory: Path, files: Iterable[StagedFile]) -> list[StagedRun]:
    """Find the runs of a job's files."""
    found: list[StagedRun] = []
    for file in files:
        begin, place = 0, 0
        last: bytes | None = None
        for first, end in key_bounds(directory, file):
            if last is not None and first <= last:
                found.append(StagedRun(file, begin, place))
                begin = place
            last = end
            place += 1
        if place > begin:
            found.append(StagedRun(file, begin, place))
    return found


def merged(directory: Path, runs: Iterable[StagedRun]) -> Iterator[Batch]:
    """Yield the documents of runs in blocks, in the order of their keys. Documents with the same key are in one block,
    next to each other."""
    return merge([staged_batches(directory, (each.file,), range(each.begin, each.end)) for each in runs])


def merge(sources: Iterable[Iterator[Batch]]) -> Iterator[Batch]:
    """Merge batches from several sources. The keys of each source ascend, within a batch and from batch to batch.

    >>> list(merge([iter([([b"a", b"d"], [b"1", b"4"])]), iter([([b"b"], [b"2"]), ([b"e"], [b"5"])])]))
    [([b'a', b'b'], [b'1', b'2']), ([b'd'], [b'4']), ([b'e'], [b'5'])]
    """
    heads = [head for source in sources if (head := Head(source)).more()]
    while heads:
        bound = min(head.keys[-1] for head in heads)
        taken = [part for head in heads if (part := head.take(bound))[0]]
        if len(taken) == 1:
            yield taken[0]
        else:
            pairs = [pair for keys, documents in taken for pair in zip(keys, documents, strict=True)]
            pairs.sort(key=_KEY)
            yield [key for key, _ in pairs], [document for _, document in pairs]
        heads = [head for head in heads if head.more()]


class Head:
    """A source, and the documents that were read from it and not taken yet."""

    __slots__ = ("_source", "documents", "keys")

    def __init__(self, source: Iterator[Batch]) -> None:
        self._source = source
        self.keys: list[bytes] = []
        self.documents: list[bytes] = []

    def more(self) -> bool:
        """Read the next batch if this one is used up. False at the end of the source."""
        while not self.keys:
            batch = next(self._source, None)
            if batch is None:
                return False
            self.keys, self.documents = batch
        return True

    def take(self, bound: bytes) -> Batch:
        """Remove the documents up to ``bound``."""
        keys, documents = self.keys, self.documents
        if keys[-1] <= bound:
            self.keys, self.documents = [], []
            return keys, documents
        end = bisect_right(keys, bound)
        self.keys, self.documents = keys[end:], documents[end:]
        return keys[:end], documents[:end]
