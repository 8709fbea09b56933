"""The last change of a keyspace, from the base's marks and the layers above them."""

from __future__ import annotations

import sys

from lowtide.engine.base.marks import newest_in
from lowtide.engine.types import after_prefix
from lowtide.engine.versions.below import BaseRows
from lowtide.engine.versions.chain import visible
from lowtide.engine.versions.layers import VersionStore


def newest_change(versions: VersionStore, rows: BaseRows, prefix: bytes, ts: int) -> int | None:
    """A commit after which the keyspace has not changed, up to ``ts``, a registered snapshot. None if none is known,
    because there are no marks or the base has a later change. The layers are taken before the base is read: what they
    no longer have is marked there. O(keys of the keyspace in memory)."""
    layers = versions.layers
    newest = rows.read(lambda txn: newest_in(rows, txn, prefix))
    if newest is None or newest > ts:
        return None
    for layer in layers:
        for key in layer.keys.between(prefix, after_prefix(prefix), sys.maxsize, False):
            version = visible(layer.chains.get(key), ts)
            if version is not None and version[0] > newest:
                newest = version[0]
    return newest
