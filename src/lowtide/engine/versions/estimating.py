"""About how many keys a range has: by the places of its two ends in the base's tree, and by the layers' keys.

An estimate for planners, which takes some 50 microseconds however many keys there are. Superseded rows, tombstones, and
keys that both the base and a layer have are counted, too: they are few beside a range that is worth an estimate.
"""

from __future__ import annotations

from struct import error as StructError
from typing import TYPE_CHECKING

from lowtide.engine.base.pages import Unreadable, decode_table
from lowtide.engine.types import Range
from lowtide.engine.versions.layers import VersionStore

if TYPE_CHECKING:
    from lowtide.engine.base.types import Txn
    from lowtide.engine.versions.below import BaseRows


def estimated_count(versions: VersionStore, rows: BaseRows, wanted: Range) -> int:
    """About how many keys there are in a range."""
    above = sum(each.keys.count(wanted.low, wanted.high) for each in versions.layers)
    return above + rows.read(lambda txn: _below(rows, txn, wanted))


def _below(rows: BaseRows, txn: Txn, wanted: Range) -> int:
    try:
        with rows.pages(txn) as pages:
            return pages.estimate_between(decode_table(txn.get(b"rows")), wanted.low, wanted.high)
    except (Unreadable, OSError, StructError):
        return 0
