"""The options of reads, writes and streams: names, descriptions, and validation.

Spark passes every option as text and accepts any name. Unknown names are refused here, so that typos do not go
unnoticed.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from lowtide.errors import UsageError, shown
from lowtide.values.extended import NotExtended, loads

OPTIONS: Final = {
    # What is read or written
    "path": "the store's directory",
    "collection": "the collection of documents",
    "keyspace": "a keyspace of bytes, in place of a collection: columns key and value",
    "quads": "a quad store, in place of a collection: a row for each RDF statement",
    # Reading a snapshot
    "asOf": "the instant: a pin's name, the timestamp of a pinned commit, or an ISO time; by default the last commit",
    "versionAsOf": "asOf, as the timestamp of a commit",
    "timestampAsOf": "asOf, as an ISO time",
    "columns": "the fields to read, as a JSON list or separated by commas",
    "filter": "a MongoDB filter as JSON; uses indexes as find() does",
    "keyStart": "the first _id (or key) to read; as JSON, else as text",
    "keyEnd": "the _id (or key) before which to stop",
    "keyPrefix": "what the _ids (or keys) begin with",
    "s": "the subject of the statements to read, as N-Triples text such as <urn:ann>",
    "p": "their predicate",
    "o": "their object",
    "g": "their graph; default for the default graph",
    "partitions": "the number of key ranges of about equal size to read; by default the number of cores",
    "batchSize": "rows of one record batch",
    "pinTtl": "how many seconds a snapshot is kept after it was last read",
    "cache": "whether unchanged key ranges are read from, and kept in, the columnar cache",
    "cacheBytes": "the most bytes that the columnar cache takes on disk",
    # The schema
    "schemaFrom": "where types come from without a schema: auto, sample or jsonSchema",
    "sampleSize": "the number of documents that types are inferred from",
    "jsonColumns": "string columns that hold the field's value as JSON text",
    "mode": "what to do with a value that does not fit its column: PERMISSIVE, DROPMALFORMED or FAILFAST",
    "columnNameOfCorruptRecord": "the column for documents that do not fit, as JSON text (PERMISSIVE)",
    # The change feed
    "readChangeFeed": "read changes, not documents",
    "startingVersion": "the first commit whose changes are read, or latest",
    "endingVersion": "the last commit whose changes are read",
    "startingTimestamp": "the ISO time from which changes are read",
    "endingTimestamp": "the ISO time up to which changes are read",
    "preimages": "whether rows before updates and deletes are shown: auto, require or none",
    "consumer": "the name of the stream's consumer of the change feed",
    "maxCommitsPerTrigger": "the most commits in one micro-batch",
    "maxRowsPerTrigger": "the most changes in one micro-batch, except for a single larger commit",
    "maxBytesPerTrigger": "the most bytes of log in one micro-batch, except for a single larger commit",
    # Writing
    "writeMode": "what rows are: insert, upsert, delete, or changes as the change feed has them",
    "idField": "the column that becomes _id",
    "deleteBy": "the column with the _ids to delete",
    "ignoreNullFields": "whether a null is left out of its document",
    "bulkBytes": "the size above which a write is a bulk load",
    "commitTimeout": "how many seconds to wait for the store's owner",
    "txnAppId": "the name of the writer, to recognise a repeated write",
    "txnVersion": "which of its writes this is",
    "checkpointLocation": "Spark's own; tells streams without a txnAppId apart",
    "queryName": "Spark's own",
}
"""Every option and its description."""

LOAD: Final = "__lowtide_load"
"""Identifies the load: a token from ``lowtide.spark.read`` that the options carry to the process that plans it."""
ORIGIN: Final = "__lowtide_origin"
"""The application and the source line that the load is for."""
FEED: Final = ("startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp", "preimages")
"""Options that select the changes to read."""
PATTERN: Final = ("s", "p", "o", "g")
"""Options that select the statements to read."""
_LOWER: Final = {name.lower(): name for name in OPTIONS}
_TRUE: Final = frozenset(("true", "yes", "on", "1"))
_FALSE: Final = frozenset(("false", "no", "off", "0"))


class SparkOptions:
    """The options that the user gave. Names are case-insensitive, as in Spark.

    >>> SparkOptions({"path": "/data/shop", "collection": "users", "PARTITIONS": "4"}).number("partitions")
    4
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given: dict[str, str] = {}
        for name, value in given.items():
            known = _LOWER.get(name.lower())
            if known is not None or name in (LOAD, ORIGIN):
                self._given[known or name] = value
            elif not name.startswith("__"):  # Spark's own
                near = difflib.get_close_matches(name.lower(), _LOWER, 1)
                hint = f"; did you mean {_LOWER[near[0]]!r}?" if near else ""
                raise UsageError(f"format lowtide has no option {name!r}{hint}")

    def over(self, others: Mapping[str, str]) -> SparkOptions:
        """Return these options, plus those of the others that are not set here."""
        return SparkOptions({**SparkOptions(others)._given, **self._given})

    def __contains__(self, name: str) -> bool:
        return name in self._given

    @property
    def path(self) -> Path:
        """The store's directory."""
        path = self._given.get("path")
        if not path:
            raise UsageError(
                'format lowtide needs the store\'s directory: option("path", ...). Spark 4.3 keeps the options of a '
                "table only if CREATE TABLE ... USING lowtide OPTIONS (...) lists no columns"
            )
        if path.startswith("file:/"):
            path = unquote(re.sub("^file:/+", "/", path))
        elif re.match(r"\w{2,}:/", path):
            raise UsageError(f"a store is a directory on a local disk, not {path}; to read elsewhere, export it")
        return Path(path).absolute()

    @property
    def collection(self) -> str | None:
        return self._given.get("collection")

    @property
    def keyspace(self) -> str | None:
        return self._given.get("keyspace")

    @property
    def quads(self) -> str | None:
        return self._given.get("quads")

    @property
    def what(self) -> str:
        """The collection, keyspace or quad store, as described to users."""
        if self.quads is not None:
            return f"quads {self.quads!r}"
        return f"collection {self.collection!r}" if self.keyspace is None else f"keyspace {self.keyspace!r}"

    def check_target(self) -> None:
        """Refuse options that name no collection, keyspace or quad store, or more than one."""
        _ = self.path
        if sum(each is not None for each in (self.collection, self.keyspace, self.quads)) != 1:
            raise UsageError(
                "format lowtide reads and writes one collection, one keyspace or one quad store: "
                'option("collection", ...), option("keyspace", ...) or option("quads", ...)'
            )
        if self.quads is None:
            self.refuse(PATTERN, "but for quads")

    def refuse(self, names: Iterable[str], where: str) -> None:
        """Refuse options that do not apply here."""
        for name in names:
            if name in self._given:
                raise UsageError(f"option {name!r} has no meaning {where}")

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._given.get(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._given.get(name)
        if value is None:
            return default
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise UsageError(f"option {name!r} is true or false, not {value!r}")

    def number(self, name: str, default: int | None = None, least: int = 1) -> int | None:
        value = self._given.get(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least:
            raise UsageError(f"option {name!r} is a whole number from {least} on, not {value!r}")
        return number

    def seconds(self, name: str, default: float) -> float:
        value = self._given.get(name)
        try:
            seconds = default if value is None else float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < 1e10:
            raise UsageError(f"option {name!r} is a number of seconds, more than 0, not {value!r}")
        return seconds

    def one_of(self, name: str, choices: Iterable[str], default: str) -> str:
        """Return one of the choices. Case is ignored."""
        value = self._given.get(name, default)
        for each in choices:
            if each.lower() == value.lower():
                return each
        raise UsageError(f"option {name!r} is {', '.join(choices)}, not {value!r}")

    def names(self, name: str) -> list[str] | None:
        """A list of names: JSON, or separated by commas."""
        value = self._given.get(name)
        if value is None:
            return None
        if not value.lstrip().startswith("["):
            return [each.strip() for each in value.split(",") if each.strip()]
        found = self.json(name)
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise UsageError(f"option {name!r} is a list of names, not {value!r}")
        return found

    def json(self, name: str) -> Any:
        """Parse an option as JSON or MongoDB Extended JSON. Returns None if it is not set."""
        value = self._given.get(name)
        if value is None:
            return None
        try:
            return loads(value)
        except (NotExtended, msgspec.DecodeError) as error:
            raise UsageError(f"option {name!r} must be JSON, and is {shown(value)}: {error}") from error

    def moment(self, name: str) -> float | None:
        """Parse an option as an ISO 8601 time, UTC without a zone. Returns seconds since the epoch."""
        value = self._given.get(name)
        return None if value is None else parse_moment(name, value)


def parse_moment(name: str, value: str) -> float:
    """Parse an ISO 8601 time to seconds since the epoch.

    >>> parse_moment("asOf", "2026-05-01T12:00:00Z")
    1777636800.0
    """
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise UsageError(
            f"option {name!r} is an ISO time such as 2026-05-01T12:00:00Z, not {value!r}: {error}"
        ) from error
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
