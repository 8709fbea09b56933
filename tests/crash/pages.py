"""LMDB's own commit, page by page: what a power loss in the middle of it could leave.

LMDB writes the pages of a commit to places that the previous commit does not use, syncs them, and then writes one of
its two meta pages, which makes them valid. Until the meta page is written, any subset of the other pages may be on disk
and the content of the file is that of the previous commit. The meta page itself fits into one sector.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

PAGE = 4096
METAS = 2


def changed_pages(before: bytes, after: bytes) -> list[int]:
    """The pages that a commit wrote, without the meta pages."""
    count = (len(after) + PAGE - 1) // PAGE
    return [number for number in range(METAS, count) if _page(before, number) != _page(after, number)]


def unfinished(before: bytes, after: bytes) -> Iterator[tuple[str, bytes]]:
    """The file with some of the pages of the commit that leads from ``before`` to ``after``, and the old meta pages."""
    changed = changed_pages(before, after)
    for count in range(1, len(changed) + 1):
        yield f"{count} of {len(changed)} pages of the base", _with(before, after, changed[:count])
    for number in changed:
        yield f"of the base only page {number}", _with(before, after, [number])
        yield f"all pages of the base but {number}", _with(before, after, [each for each in changed if each != number])
    chance = random.Random(len(changed))
    for _ in range(len(changed)):
        some = [each for each in changed if chance.random() < 0.5]
        yield f"of the base pages {some}", _with(before, after, some)
        yield f"of the base halves of the pages {some}", _with(before, after, some, PAGE // 2)


def _page(content: bytes, number: int) -> bytes:
    return content[number * PAGE : (number + 1) * PAGE]


def _with(before: bytes, after: bytes, pages: Collection[int], arrived: int = PAGE) -> bytes:
    content = bytearray(before)
    for number in pages:
        start = number * PAGE
        if len(content) < start + PAGE:
            content.extend(bytes(start + PAGE - len(content)))
        content[start : start + arrived] = after[start : start + arrived]
    return bytes(content)
