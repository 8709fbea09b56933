"""Reads the change feed as a DataFrame: tasks read the changes between two versions from the log.

A version is the timestamp of a commit. The plan is a range of commits that is fixed when the DataFrame is first used.
Each task reads a part of that range from the log's files. In a stream, each task reads the whole range of the batch and
takes its share of the keys, so all changes of a key are in one partition, in commit order. The changes of a bulk load
are not in the log. They are read from the store, in key ranges.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lowtide.documents.catalog import CATALOG, check_collection_name, row_key, row_of
from lowtide.documents.lineage import Lineage, Stretch, keyspace_at, lineage, replaced
from lowtide.engine import EngineSnapshot, begun_between, bytes_between, cut_between
from lowtide.errors import ChangesLost, Error, UsageError
from lowtide.feed.differences import Swap
from lowtide.feed.ranges import ALL, ChangeRows, CommitRange, Preimages, Share, add_difference, read_rows
from lowtide.spark.change_batches import ChangeBatches, change_batches
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import SparkOptions
from lowtide.spark.partitions import EVERYTHING, parts_of
from lowtide.store.opening import follower_of, open_store

BATCH: Final = 10_000
"""Rows of one record batch."""
SMALL: Final = 32 << 20
"""Bytes of log per task. Fewer are not worth another task."""
FOREIGN: Final = ("asOf", "versionAsOf", "timestampAsOf", "filter", "keyStart", "keyEnd", "keyPrefix", "cache")
"""Options of snapshot reads, which do not apply here."""


@dataclass(frozen=True)
class ChangePart(InputPartition):
    """A share of a keyspace's changes in the commits after ``since`` up to ``until``.

    The keyspace is given by its prefix; None if it does not exist yet.
    """

    location: StoreLocation
    prefix: bytes | None
    since: int
    until: int
    share: Share = ALL

    def commits(self, path: Path) -> CommitRange:
        return CommitRange(path / "log", self.location.store_id, self.since, self.until)


@dataclass(frozen=True)
class DifferencePart(InputPartition):
    """The changes of a bulk load to keys in ``[low, high)``. A ``high`` of None is the end."""

    location: StoreLocation
    swap: Swap
    low: bytes = b""
    high: bytes | None = None


Part = ChangePart | DifferencePart


class ChangeSource:
    """A store opened to plan a range of changes, while another process may own it. Close it after use."""

    def __init__(self, options: SparkOptions) -> None:
        options.check_target()
        options.refuse(FOREIGN, "for changes")
        self.options = options
        self.location = StoreLocation.here(options.path)
        self.store = open_store(options.path, read_only=True)
        self.follower = follower_of(self.store)
        self.feed = self.follower.feed

    def close(self) -> None:
        self.store.close()

    def keyspace(self) -> str:
        """Return the requested keyspace as of the last commit."""
        if self.options.keyspace is not None:
            return self.options.keyspace
        if self.options.quads is not None:
            from lowtide.spark.statements import keyspace_of  # needs rdflib

            return keyspace_of(self.options.quads)
        name = check_collection_name(self.options.collection)
        catalog = self.feed.prefix_of(CATALOG, self.feed.published())
        return row_of(name, self.follower.newest(catalog + row_key(name)) if catalog is not None else None).keyspace

    def others(self) -> list[str]:
        """Return the other keyspaces that are needed to show the entries of a snapshot: the terms of statements."""
        if self.options.quads is None:
            return []
        from lowtide.spark.statements import keyspace_of

        return [keyspace_of(self.options.quads, "terms")]

    def keyspace_at(self, since: int) -> str:
        """Return the requested keyspace as of a commit."""
        if self.options.collection is None:
            return self.keyspace()
        found = keyspace_at(self.feed, self.follower.newest, self.options.collection, since)
        if found is None:
            raise UsageError(
                f"the log no longer shows where the collection had its documents at version {since}: it was renamed "
                "before, or dropped while others wrote to it. Start with its snapshot, or with a later version"
            )
        return found

    def lineage(self, keyspace: str, since: int, until: int) -> Lineage:
        """Return where the changes of a range are stored, given the keyspace at its start."""
        if self.options.collection is None:
            return Lineage((Stretch(keyspace, since, until),), until, keyspace)
        return lineage(self.feed, self.options.collection, keyspace, since, until)

    def start(self) -> int | None:
        """Return the commit after which the requested changes begin. None if no start is given.

        Refuses a start that does not exist yet or is no longer kept.
        """
        version, moment = self.options.text("startingVersion"), self.options.moment("startingTimestamp")
        if version is not None and moment is not None:
            raise UsageError("options 'startingVersion' and 'startingTimestamp' both set the start; give one")
        last = self.feed.published()
        if moment is not None:
            found = self.feed.last_before(moment, inclusive=False)
            if found is None:
                raise self.too_early(f"startingTimestamp {self.options.text('startingTimestamp')}")
            return found
        if version is None:
            return None
        if version.lower() == "latest":
            return last
        number = self.options.number("startingVersion", least=0) or 0
        if number > last + 1:
            raise UsageError(f"startingVersion {number} does not exist yet: the last version is {last}")
        since = max(0, number - 1)
        self.check_kept(since, f"startingVersion {number}")
        return since

    def end(self) -> int:
        """Return the last commit whose changes are requested."""
        version, moment = self.options.number("endingVersion", least=0), self.options.moment("endingTimestamp")
        if version is not None and moment is not None:
            raise UsageError("options 'endingVersion' and 'endingTimestamp' both set the end; give one")
        last = self.feed.published()
        if moment is not None:
            found = self.feed.last_before(moment)
            if found is None:
                raise self.too_early(f"endingTimestamp {self.options.text('endingTimestamp')}")
            return found
        if version is not None and version > last:
            raise UsageError(f"endingVersion {version} does not exist yet: the last version is {last}")
        return last if version is None else version

    def check_kept(self, since: int, what: str) -> None:
        """Refuse to continue after ``since`` if the log no longer holds the commits that follow."""
        if since >= self.feed.published():
            return
        try:
            self.feed.check_kept(since)
        except ChangesLost as lost:
            raise self.too_early(what) from lost

    def too_early(self, what: str) -> UsageError:
        kept = self.feed.first_kept()
        return UsageError(
            f"{what} lies before what the store {self.options.path} still has: its log begins with version {kept}. "
            f"Start with version {kept}, or with a snapshot. To have more of the log kept from now on, register a "
            "consumer (store.consumer) for the reader, or open the store with more feed_bytes"
        )

    def parts(self, line: Lineage, *, by_key: bool) -> list[Part]:
        """Split a range of changes into parts, one per 32 MiB of log, up to the requested number.

        Parts are ranges of commits or, with ``by_key``, shares of the keys.
        """
        return [
            part
            for each in line.parts
            for part in (self._swapped(each) if isinstance(each, Swap) else self._logged(each, by_key))
        ]

    def _most(self) -> int:
        return self.options.number("partitions", os.cpu_count() or 2) or 1

    def _logged(self, stretch: Stretch, by_key: bool) -> list[Part]:
        keyspace, since, until = stretch
        prefix = self.feed.prefix_of(keyspace, until)
        if prefix is None:
            return [ChangePart(self.location, None, since, until)]
        log = self.options.path / "log", self.location.store_id, since, until
        if by_key:  # the same shares each time the batch runs
            count = max(1, min(self._most(), begun_between(*log) // SMALL))
            return [ChangePart(self.location, prefix, since, until, Share(index, count)) for index in range(count)]
        cuts = cut_between(*log, max(1, min(self._most(), bytes_between(*log) // SMALL)))
        return [ChangePart(self.location, prefix, *each) for each in zip([since, *cuts], [*cuts, until], strict=True)]

    def _swapped(self, swap: Swap) -> list[Part]:
        with EngineSnapshot(self.follower.engine, None) as snapshot:
            count = parts_of(self.options.number("partitions"), snapshot, swap.changes, EVERYTHING)
            cuts = snapshot.cuts(swap.changes, count)
        return [DifferencePart(self.location, swap, *each) for each in zip([b"", *cuts], [*cuts, None], strict=True)]


@contextmanager
def explained(options: SparkOptions) -> Iterator[None]:
    """Add the store and the collection to errors."""
    try:
        yield
    except ChangesLost as error:
        raise Error(
            f"{options.what} of the store {options.path}: the changes after version {error.since} are no longer kept; "
            f"its log begins with version {error.kept}. Start again from a snapshot. A named consumer "
            "(store.consumer), or more feed_bytes, keeps them for longer"
        ) from error
    except Error as error:
        kind = UsageError if isinstance(error, UsageError) else Error
        raise kind(f"{options.what} of the store {options.path}: {error}") from error


def read_changes(part: Part, options: SparkOptions, columns: ChangeBatches) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a part, in a task. None of them is empty."""
    path = part.location.check()
    size, preimages = options.number("batchSize", BATCH) or BATCH, preimages_of(options)
    found: Iterator[ChangeRows]
    if isinstance(part, DifferencePart):
        found = _difference_rows(path, part, preimages, size)
    elif part.prefix is None:
        return
    else:
        found = read_rows(part.commits(path), part.prefix, preimages, part.share, size)
    for rows in found:
        batch = columns.batch(rows)
        if batch.num_rows:
            yield batch


def _difference_rows(path: Path, part: DifferencePart, preimages: str, size: int) -> Iterator[ChangeRows]:
    """Yield the rows of a bulk load in batches, since a load can have any size."""
    with open_store(path, read_only=True) as store:
        generations = follower_of(store).feed.generations
        assert generations is not None
        rows = ChangeRows()
        for key, each in generations.differences(part.swap, part.low, part.high):
            add_difference(rows, part.swap, key, each, preimages)
            if len(rows) >= size:
                yield rows
                rows = ChangeRows()
        if len(rows):
            yield rows


def preimages_of(options: SparkOptions) -> str:
    return options.one_of("preimages", tuple(Preimages), Preimages.AUTO)


class ChangeReader(DataSourceReader):
    """Reads the changes of a collection or a keyspace, between two versions, both included."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        options.check_target()
        options.refuse(FOREIGN, "for changes")
        preimages_of(options)
        self._options = options
        self._schema = schema
        change_batches(options, schema)  # refuses a schema that it cannot build

    def partitions(self) -> Sequence[Part]:
        """Return the parts. They are planned once per DataFrame; later actions reuse them."""
        with explained(self._options):
            source = ChangeSource(self._options)
            try:
                return self._planned(source)
            finally:
                source.close()

    def _planned(self, source: ChangeSource) -> list[Part]:
        until, since = source.end(), source.start()
        if since is None:
            raise UsageError("the change feed needs a start: option startingVersion or startingTimestamp")
        if since >= until:
            return [ChangePart(source.location, None, since, since)]
        line = source.lineage(source.keyspace_at(since), since, until)
        if line.replaced is not None:
            assert self._options.collection is not None
            raise replaced(self._options.collection, line.replaced)
        return source.parts(line, by_key=False)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of one part, in a task."""
        assert isinstance(partition, Part)
        with explained(self._options):
            yield from read_changes(partition, self._options, change_batches(self._options, self._schema))
