"""Keys at which a commit yields: it writes them only if no other commit has changed them since its snapshot.

A key that was changed is left out, and the rest is committed. An ordinary transaction would be refused as a whole.
Index builds use this to add missing entries while other transactions write continuously.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.engine.transaction.request import Request
from lowtide.engine.transaction.telling import tell
from lowtide.engine.transaction.validate import Validator
from lowtide.engine.types import Writes


class Yielding:
    """The keys of one commit at which it yields.

    Filled by its transaction's thread. ``left_out`` is written by the leader of the commit group, under the commit
    lock, and read by the transaction's thread after the commit.
    """

    __slots__ = ("before", "keys", "left_out")

    def __init__(self, keys: set[bytes], before: Writes) -> None:
        self.keys = keys
        self.before = before
        """The values at the snapshot of all keys that the transaction writes."""
        self.left_out: list[bytes] = []


def give_way(
    request: Request, yielding: Yielding, validator: Validator, earlier: Sequence[Request], keep_before: bool
) -> None:
    """Remove from a request the keys that were changed since its snapshot, or that an ``earlier`` member of the group
    writes. If nothing would be left, the request stays unchanged, and its validation refuses it. The caller holds the
    commit lock."""
    keys = yielding.keys
    changed = {key for each in earlier for key in each.writes if key in keys}
    if validator.write_clash(keys, request.seen) is not None:
        changed.update(key for key in keys if validator.write_clash((key,), request.seen) is not None)
    writes = {key: value for key, value in request.writes.items() if key not in changed}
    if not changed or not writes:
        return
    request.writes = writes
    tell(request, [yielding.before[key] for key in writes], keep_before)
    yielding.left_out.extend(changed)
