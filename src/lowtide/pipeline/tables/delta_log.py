"""What Delta's own log remembers of files that are gone: the first and the last key of each.

A key is an ``_id``, so a log may have to forget it. The log is a list of commits, and of checkpoints that say what all
commits before them have led to. After a checkpoint the commits before it are only history, which the archive does not
need: it travels in time by its own rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from lowtide.pipeline.tables.columns import KEY
from lowtide.pipeline.tables.files import LONGEST

if TYPE_CHECKING:
    from lowtide.pipeline.tables.location import Location
    from lowtide.pipeline.tables.table import VersionTable

_LOG: Final = "_delta_log"
_VERSION: Final = re.compile(r"(\d{20})\.")
_END: Final = "\U0010ffff"


def log_files(table: Location) -> list[str]:
    """Return the names of the files of the log that belong to a version."""
    found = table.files.get_file_info(pa.fs.FileSelector(f"{table.root}/{_LOG}", allow_not_found=True))
    return sorted(each.base_name for each in found if _VERSION.match(each.base_name))


def files_naming(table: Location, key: str) -> list[str]:
    """Return the files of the log in which a key is the first or the last one of some file. Of a long key, what
    statistics keep of it is looked for, which other keys may share."""
    return [name for name in log_files(table) if key[:LONGEST] in set(_border_keys(table, name))]


def forget(table: VersionTable) -> list[str]:
    """Remove the log before the table's present version. Returns the names of what was removed.

    Readers of older Delta versions fail after this, and a run that is publishing at this moment must be repeated.
    """
    table.delta.create_checkpoint()
    present = table.version
    removed = [name for name in log_files(table.location) if int(name[:20]) < present]
    for name in removed:
        table.location.files.delete_file(f"{table.location.root}/{_LOG}/{name}")
    table.reload()
    return removed


def _border_keys(table: Location, name: str) -> Iterator[str]:
    for text in _statistics(table, name):
        found = msgspec.json.decode(text)
        for limits in (found.get("minValues") or {}, found.get("maxValues") or {}):
            if KEY in limits:
                yield limits[KEY].removesuffix(_END)


def _statistics(table: Location, name: str) -> Iterator[str]:
    with table.files.open_input_file(f"{table.root}/{_LOG}/{name}") as source:
        if name.endswith(".json"):
            actions: list[dict[str, Any]] = [msgspec.json.decode(line) for line in source.read().splitlines() if line]
        elif name.endswith(".parquet"):
            actions = pa.parquet.read_table(source).select(["add"]).to_pylist()
        else:
            return
    for each in actions:
        text = (each.get("add") or {}).get("stats")
        if text:
            yield text
