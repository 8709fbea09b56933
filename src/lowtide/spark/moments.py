"""Encodes a column of timestamps as MessagePack, a whole column at a time.

The bytes are those that msgspec writes for a datetime in UTC: 32 bits of seconds for a whole second from 1970 to 2106,
else 30 bits of nanoseconds and 34 of seconds, from 1970 to 2514. Other values, which are rare, are encoded from
datetimes one by one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT, _LONG = np.frombuffer(b"\xd6\xff", np.uint8), np.frombuffer(b"\xd7\xff", np.uint8)
"""The first bytes of a timestamp of four and of eight bytes."""
_encode: Final = msgspec.msgpack.Encoder().encode


def encoded_moments(micros: NDArray[np.int64]) -> list[msgspec.Raw]:
    """Return the encoded timestamps, given in microseconds since the epoch. Raises OverflowError if one is not in the
    years 1 to 9999.

    >>> encoded_moments(np.array([1_500_000])) == [msgspec.Raw(_encode(EPOCH + timedelta(seconds=1.5)))]
    True
    """
    seconds, rest = np.divmod(micros, 1_000_000)
    is_short = (rest == 0) & (seconds >= 0) & (seconds < 1 << 32)
    found = _after(_LONG, (rest.astype(np.uint64) * 1000 << np.uint64(34)) | seconds.astype(np.uint64), ">u8")
    if is_short.any():
        short = _after(_SHORT, seconds.astype(np.uint64), ">u4")
        found = short if is_short.all() else list(map(_chosen, is_short.tolist(), short, found))
    for row in np.flatnonzero((seconds < 0) | (seconds >= 1 << 34)).tolist():
        found[row] = _encode(EPOCH + timedelta(microseconds=int(micros[row])))
    return list(map(msgspec.Raw, found))


def _after(head: NDArray[np.uint8], numbers: NDArray[np.uint64], width: str) -> list[bytes]:
    """Return the numbers as bytes of this width, each after the same first bytes."""
    rows = np.empty(len(numbers), [("head", np.uint8, len(head)), ("body", width)])
    rows["head"], rows["body"] = head, numbers
    found: list[bytes] = rows.view(f"V{rows.itemsize}").tolist()
    return found


def _chosen(is_first: bool, first: Any, second: Any) -> Any:
    return first if is_first else second
