"""The change feed as a stream: ``spark.readStream.format("lowtide")``.

Without a start, a stream delivers the current documents as inserts, and then the commits after that. It registers a
consumer first, which keeps the log, and then takes a pin, which keeps the snapshot. The names of both are in the
offsets, so a restarted stream finds them. The consumer advances with the offsets that Spark commits. The pin is
released when the snapshot has been delivered.

Spark calls everything except ``read`` from one thread of a process that lives as long as the query. That process may be
killed at any time: its state is in the offsets or can be recomputed.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lowtide.documents.catalog import CATALOG
from lowtide.documents.lineage import replaced
from lowtide.errors import ChangesLost, Error, SnapshotExpired, UsageError
from lowtide.feed.differences import Swap
from lowtide.feed.ranges import commits_in
from lowtide.sharing.pins.snapshot import open_pinned, renew_pin
from lowtide.spark.change_batches import change_batches
from lowtide.spark.change_columns import KIND
from lowtide.spark.changes import FOREIGN, ChangeSource, Part, explained, preimages_of, read_changes
from lowtide.spark.inference import look_at
from lowtide.spark.limits import BatchLimits
from lowtide.spark.offsets import INITIAL, Offset, parse
from lowtide.spark.options import SparkOptions
from lowtide.spark.partitions import Bounds, parts_of
from lowtide.spark.stream_snapshot import TTL, SnapshotPart, expired, following, opened, read_snapshot

logger = logging.getLogger("lowtide")

_ATTEMPTS: Final = 10
"""Maximum number of attempts to take the snapshot of a collection while its keyspace is being replaced."""
QUIET_SECONDS: Final = 60.0
QUIET_COMMITS: Final = 10_000
"""Seconds and commits for which a stream runs no batch while only other keyspaces are written."""
ENDS: Final = ("endingVersion", "endingTimestamp")


class ChangeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams the changes of a collection or a keyspace, optionally after its snapshot."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        options.check_target()
        options.refuse(FOREIGN, "for a stream of changes")
        options.refuse(ENDS, "for a stream, which has no end; Trigger.AvailableNow ends with what there is")
        if KIND not in schema.names and not options.flag("readChangeFeed"):
            raise UsageError(
                "a stream is one of changes, whose column _change_type tells inserts from updates and deletes: give "
                'option("readChangeFeed", True), and with that also a schema without it, if you do not need it'
            )
        self._options = options
        self._schema = schema
        self._limits = BatchLimits.of(options)
        preimages_of(options)
        change_batches(options, schema)  # refuses a schema that it cannot build
        self._opened: ChangeSource | None = None
        self._begun: Offset | None = None
        self._resumed = False
        self._unpinned = False
        self._renewed = 0.0
        self._target: int | None = None
        self._quiet = -1, 0.0
        """The commit up to which no commit concerns this stream, and since when that has been so."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the options only. Tasks do not get open files."""
        return {**self.__dict__, "_opened": None, "_begun": None}

    @property
    def _source(self) -> ChangeSource:
        if self._opened is None:
            self._opened = ChangeSource(self._options)
        return self._opened

    def stop(self) -> None:
        source, self._opened = self._opened, None
        if source is not None:
            source.close()

    # Offsets

    def initialOffset(self) -> dict[str, Any]:
        return dict(INITIAL)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this run. Later commits are left to the next run."""
        with explained(self._options):
            self._target = self._source.feed.published()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit by rows, else by bytes, else by commits. All given limits are enforced."""
        return self._limits.as_spark()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        with explained(self._options):
            return {"version": self._source.feed.published()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the batch that begins at ``start``.

        From the initial offset it always advances, since the position where the stream begins must be in the
        checkpoint before anything else is committed.
        """
        limits = BatchLimits() if isinstance(limit, ReadAllAvailable) else self._limits
        with explained(self._options):
            offset = parse(start)
            if offset is None:
                offset = self._begun = self._begun or self._begin()
            else:
                self._resume(offset)
            return (self._through_snapshot if offset.after is not None else self._through_log)(offset, limits).plain()

    def _begin(self) -> Offset:
        """Register the consumer and then pin the snapshot, in this order so that there is no gap between them."""
        source = self._source
        stream = secrets.token_hex(6)
        last, since = source.feed.published(), source.start()
        offset = Offset(
            store=source.location.store_id.hex(),
            what=self._options.what,
            keyspace=source.keyspace() if since is None else source.keyspace_at(since),
            stream=stream,
            consumer=self._options.text("consumer") or f"spark stream {stream}",
            since=last if since is None else since,
            version=last if since is None else since,
        )
        self._hold(offset, "the start of the stream")
        try:
            if since is None:
                offset = self._pinned(offset)
            else:
                line = source.lineage(offset.keyspace, since, last)
                if line.replaced is not None:
                    raise self._replaced(line.replaced)
        except Error:
            if "consumer" not in self._options:
                source.follower.consumers.remove(offset.consumer)
            raise
        self._resumed = True
        return offset

    def _pinned(self, offset: Offset) -> Offset:
        """Pin a snapshot and return the first offset of a stream that begins with it."""
        source, ttl = self._source, self._options.seconds("pinTtl", TTL)
        for _ in range(_ATTEMPTS):
            keyspace = source.keyspace()
            pin = source.store.pin(offset.pin, ttl, keyspaces=[CATALOG, keyspace, *source.others()])
            self._renewed = time.monotonic()
            if self._options.collection is not None:
                with open_pinned(self._options.path, pin=pin) as snapshot:
                    there = look_at(snapshot, self._options.collection).row.keyspace
            else:
                there = keyspace
            if there == keyspace:
                return offset.with_snapshot(keyspace, pin.ts, pin.taken)
            pin.release()
        raise Error("the collection was replaced repeatedly while its snapshot was taken; retry later")

    def _resume(self, offset: Offset) -> None:
        """Check, before the first batch of this process, that what the stream needs still exists."""
        if self._resumed:
            return
        self._check(offset)
        self._hold(offset, "the position of the stream")
        self._resumed = True

    def _check(self, offset: Offset) -> None:
        """Refuse a checkpoint of another stream."""
        source = self._source
        if offset.store != source.location.store_id.hex():
            raise UsageError("the checkpoint is of a stream of another store; use another checkpointLocation")
        if offset.what != self._options.what:
            raise UsageError(f"the checkpoint is of a stream of {offset.what}; use another checkpointLocation")
        if offset.version > (last := source.feed.published()):
            raise Error(
                f"the stream has delivered the changes up to version {offset.version}, but the last version of the "
                f"store is {last}: it was restored from a backup, or lost commits that were not on disk in a power "
                "loss; start a new stream, with another checkpointLocation"
            )

    def _hold(self, offset: Offset, what: str) -> None:
        """Keep the log from this position on, even if the consumer was removed or moved."""
        consumers = self._source.follower.consumers
        self._source.check_kept(offset.version, f"{what}, version {offset.version + 1},")
        try:
            consumer = consumers.get(offset.consumer, offset.version)
            if consumer.position != offset.version:
                held = next(each for each in consumers.all() if each.name == offset.consumer)
                if held.position > offset.version or held.lost:
                    consumers.move(offset.consumer, offset.version, back=True)
                    self._source.check_kept(offset.version, what)
        except ChangesLost as lost:
            raise self._source.too_early(what) from lost

    def _through_snapshot(self, offset: Offset, limits: BatchLimits) -> Offset:
        """Advance through the snapshot as far as the limits allow, by at least one entry."""
        self._renew(offset)
        if not limits.by_size:
            return offset.after_key(None)
        with opened(self._options, offset) as snapshot:
            return offset.after_key(
                limits.last_key(snapshot.keyspace(offset.keyspace).scan(following(offset.last_key)))
            )

    def _through_log(self, offset: Offset, limits: BatchLimits) -> Offset:
        """Advance through the log as far as the limits allow, by at least one whole commit.

        A bulk load is a batch of its own, so that its parts can be key ranges.
        """
        source, since = self._source, offset.version
        until = source.feed.published()
        if self._target is not None:
            until = min(until, self._target)
        if until <= since:
            return offset
        source.check_kept(since, f"the position of the stream, version {since + 1},")
        if self._is_quiet(offset, until):
            return offset
        if limits.commits is not None:
            until = min(until, since + limits.commits)
        line = source.lineage(offset.keyspace, since, until)
        if not line.parts:
            assert line.replaced is not None
            raise self._replaced(line.replaced)
        first = line.parts[0]
        if isinstance(first, Swap):
            return offset.swapped(first.ts, first.new)
        until = first.until
        if limits.by_size:
            prefix = source.feed.prefix_of(offset.keyspace, until)
            if prefix is not None:
                until = limits.last_commit(source.feed.commits(since, until), prefix, preimages_of(self._options))
        return offset.at_version(until)

    def _is_quiet(self, offset: Offset, until: int) -> bool:
        """Return whether no commit up to ``until`` concerns this stream, so that no batch is needed.

        This is true only for a limited time: the consumer advances only with batches, and the log is kept for it. The
        result of a search is remembered.
        """
        since, now = offset.version, time.monotonic()
        known, begun = self._quiet if self._quiet[0] >= since else (since, now)
        if self._target is not None or now - begun > QUIET_SECONDS or until - since > QUIET_COMMITS:
            self._quiet = -1, 0.0
            return False
        source = self._source
        prefixes = [source.feed.prefix_of(each, until) for each in (offset.keyspace, CATALOG)]
        watched = tuple(each for each in prefixes if each is not None)
        for commit in commits_in(source.feed.commits(known, until)):
            if any(key.startswith(watched) for key in commit.writes):
                self._quiet = commit.ts - 1, begun
                return False
        self._quiet = until, begun
        return True

    def _replaced(self, commit: int) -> UsageError:
        assert self._options.collection is not None
        return replaced(self._options.collection, commit)

    # Batches

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts between two offsets. The result is deterministic."""
        with explained(self._options):
            last = parse(end)
            if last is None:
                return []
            self._check(last)
            first = parse(start) or last.origin()
            if first == last:
                return []
            if first.after is not None:
                return self._snapshot_parts(first, last)
            self._source.check_kept(first.version, f"the position of the stream, version {first.version + 1},")
            line = self._source.lineage(first.keyspace, first.version, last.version)
            return self._source.parts(line, by_key=True)

    def _snapshot_parts(self, first: Offset, last: Offset) -> list[SnapshotPart]:
        """Return the entries between two positions of the snapshot, as several key ranges if they are the last ones."""
        self._renew(last)
        location, low = self._source.location, following(first.last_key) or b""
        high = None if last.after is None else following(last.last_key)
        cuts: list[bytes] = []
        if high is None:
            with opened(self._options, last) as snapshot:
                parts = parts_of(self._options.number("partitions"), snapshot, last.keyspace, Bounds(low, None))
                cuts = snapshot.cuts(last.keyspace, parts, low or None, None)
        return [SnapshotPart(location, last, *each) for each in zip([low, *cuts], [*cuts, high], strict=True)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of one part, in a task."""
        columns = change_batches(self._options, self._schema)
        with explained(self._options):
            if isinstance(partition, Part):
                yield from read_changes(partition, self._options, columns)
            else:
                assert isinstance(partition, SnapshotPart)
                yield from read_snapshot(partition, self._options, columns)

    # Delivered batches

    def commit(self, end: dict[str, Any]) -> None:
        """Release the log up to ``end``, and the snapshot once it is delivered.

        A failure does not end the query, since no batch depends on this. The next batch tries again, and raises if
        something that it needs is gone.
        """
        offset = parse(end)
        if offset is None:
            return
        try:
            self._let_go(offset)
        except Error as error:
            logger.warning("stream of %s of %s: %s", self._options.what, self._options.path, error)

    def _let_go(self, offset: Offset) -> None:
        if offset.after is not None:
            self._renew(offset)
            return
        consumers = self._source.follower.consumers
        try:
            consumers.move(offset.consumer, offset.version)
        except UsageError:
            logger.warning("the consumer %r of a stream was removed; it is registered again", offset.consumer)
            consumers.get(offset.consumer, offset.version)
        if offset.taken is not None and not self._unpinned:
            self._source.store.unpin(offset.pin)
            self._unpinned = True

    def _renew(self, offset: Offset) -> None:
        """Renew the pin of the snapshot if a quarter of its time to live has passed since the last renewal here."""
        if self._renewed and time.monotonic() - self._renewed < self._options.seconds("pinTtl", TTL) / 4:
            return
        try:
            renew_pin(self._options.path, offset.pin)
        except SnapshotExpired as error:
            raise expired(offset) from error
        self._renewed = time.monotonic()
