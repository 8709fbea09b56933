"""One run of the archiver: copies everything committed since the last run to the tables of the archive.

A run reads the log from the archive's last commit to the store's, and publishes in this order:

1. Tasks write files that no table names yet.
2. Each table gets one commit that names its files and, as an application transaction, the store's commit.
3. The ledger gets the entry of the run. From then on the archive has reached that commit.
4. The consumer acknowledges the commits, so the store may release its log.

A run that was killed is repeated from the ledger's last entry. A table that it had already published is skipped, thanks
to its application transaction, so each version is archived once. Two concurrent runs publish the same transactions, and
Delta refuses the second one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql import functions as F

from lowtide.documents.catalog import CATALOG
from lowtide.engine import KEYSPACE_PREFIX
from lowtide.errors import UsageError
from lowtide.feed.differences import Swap
from lowtide.feed.ranges import CommitRange, commits_in
from lowtide.pipeline.archive.log_tasks import LoadPart, Target, load_task, log_task
from lowtide.pipeline.archive.plan import LogSpan, Relocation, Routes, Step, steps_of
from lowtide.pipeline.archive.publish import Publisher
from lowtide.pipeline.archive.report import ArchiveReport, ArchiveTotals
from lowtide.pipeline.archive.snapshots import insert_parts, reconcile, state_of
from lowtide.pipeline.archive.source import ArchiveSource, PinnedState
from lowtide.pipeline.archive.timeline import check_timeline
from lowtide.pipeline.errors import ArchiveError
from lowtide.pipeline.tables.columns import KEY, RAW
from lowtide.pipeline.tables.compact import compact_where_due
from lowtide.pipeline.tables.jobs import Written, run_parts
from lowtide.pipeline.tables.ledger import BEFORE, BEGIN, FORMAT, GAP, RUN, ArchiveLedger, CommitGap, names
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at, tables_in
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES, TableName, check_collections
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.tables.visible import visible
from lowtide.pipeline.tables.writer import raw_text
from lowtide.spark.archives import ArchiveNote, note_archive
from lowtide.spark.session import explained, register
from lowtide.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress = Callable[[str], None]
AUTO, NEVER = "auto", "never"
_CATALOG: Final = str(TableName(KEYSPACES, CATALOG))
"""The table of the collections' catalog, which every archive follows."""
RUNS: Final = "lowtide-run"
"""The application transaction of the ledger's entries of runs."""


def archive(
    spark: SparkSession,
    store_path: str | os.PathLike[str],
    archive_path: str | os.PathLike[str],
    collections: Iterable[str] | None = None,
    *,
    compact: str = "auto",
    progress: Progress | None = None,
) -> ArchiveReport:
    """Bring an archive up to the last commit of a store; make it if it does not exist.

    Without ``collections`` it follows everything in the store. With them, only those, from the first run that names
    them on. It can be repeated at any time, and does nothing if nothing was committed. The store may be in use, by this
    process or another one; its log is kept for the next run. Tables that have got many small files are compacted;
    ``compact="never"`` leaves that to ``lowtide.pipeline.compact``.
    """
    if compact not in (AUTO, NEVER):
        raise UsageError(f"compact is {AUTO!r} or {NEVER!r}, not {compact!r}")
    place = Location.of(archive_path)
    register(spark)
    wanted = check_collections(collections)
    source = ArchiveSource(store_path)
    try:
        source.check_apart(place)
        with explained(spark):
            report = _Run(spark, source, place, wanted, progress or (lambda _: None)).run()
            if compact == AUTO:
                compact_where_due(spark, place, progress)
            return report
    finally:
        source.close()


class _Run:
    """One run. ``_tables`` are those that exist or will be created."""

    def __init__(
        self,
        spark: SparkSession,
        source: ArchiveSource,
        archive: Location,
        collections: list[str] | None,
        progress: Progress,
    ) -> None:
        self._spark = spark
        self._source = source
        self._archive = archive
        self._wanted = None if collections is None else {str(TableName(COLLECTIONS, each)) for each in collections}
        self._progress = progress
        self._ledger = ArchiveLedger(archive)
        self._tables: dict[TableName, VersionTable] = {}
        self._totals = ArchiveTotals()
        self._later: dict[str, tuple[int, str]] = {}
        """Tables that begin with a snapshot at the end of this run, and are not followed before: the last commit that
        they have before it, and why."""

    def run(self) -> ArchiveReport:
        begun = SYSTEM_CLOCK.monotonic()
        added = self._begin()
        name = self._ledger.of(BEGIN)[0].detail["consumer"]
        check_timeline(self._spark, self._source, self._ledger, name)
        since = self._ledger.commit
        has_log = self._follow(name, since)
        if has_log and not added and not self._takes_over(since):
            until, routes = self._through_log(since, self._source.last_commit())
        else:
            until, routes = self._with_snapshot(since, added if has_log else None)
        seconds = SYSTEM_CLOCK.monotonic() - begun
        report = self._totals.report(since, until, seconds)
        if until > since or added or self._ledger.last_run is None:
            self._finish(since, until, routes, report)
        self._source.store.consumer(name).ack(until)
        tables = self._ledger.selection
        note = ArchiveNote(self._archive.uri, until, None if tables is None else sorted(tables))
        note_archive(self._source.path, note)
        return report

    # The beginning

    def _begin(self) -> set[str]:
        """Have the archive follow the requested tables. Returns those that its last run did not follow: they begin with
        a snapshot. The run counts, not the entry that requests them, since a run may be killed."""
        if self._ledger.exists:
            self._ledger.check()
            if self._ledger.store != self._source.store_id:
                raise ArchiveError(
                    f"{self._archive.uri} is the archive of another store, {self._ledger.store}; the store "
                    f"{self._source.path} is {self._source.store_id}. Give another directory for its archive"
                )
        self._select()
        run, selection = self._ledger.last_run, self._ledger.selection
        if run is None or run.detail["followed"] is None:
            return set()
        now = self._stored_tables() if selection is None else selection
        return set(now) - {*run.detail["followed"], _CATALOG}

    def _select(self) -> None:
        """Record the requested tables in the ledger, unless the archive already follows them."""
        begun, selection = self._ledger.of(BEGIN), self._ledger.selection
        if begun and (selection is None or (self._wanted is not None and self._wanted <= selection)):
            return
        detail = {
            "store": self._source.store_id,
            "consumer": begun[0].detail["consumer"] if begun else f"archive-{uuid4().hex[:12]}",
            "tables": names(self._wanted),
            "format": FORMAT,
        }
        self._ledger.add(BEGIN, application=("lowtide-begin", 1 + len(begun)), detail=detail)

    def _stored_tables(self) -> set[str]:
        found = map(Routes().table_of, self._source.keyspaces(self._source.last_commit()))
        return {str(each) for each in found if each is not None}

    def _follow(self, name: str, since: int) -> bool:
        """Have the log kept for this archive. Returns whether it has everything after ``since``."""
        known = self._source.consumer(name)
        if known is None:
            has_log = self._source.has_log_after(since)
            self._source.store.consumer(name, since if has_log else self._source.last_commit())
            return has_log and self._source.has_log_after(since)
        return not known.lost and self._source.has_log_after(since)

    # The two ways

    def _steps(self, since: int, until: int) -> tuple[list[Step], Routes]:
        routes = self._routes(since)
        return steps_of(since, until, routes, self._source.catalog_changes(since, until, routes))

    def _through_log(self, since: int, until: int) -> tuple[int, Routes]:
        """Archive the commits after ``since`` from the log alone."""
        steps, after = self._steps(since, until)
        for number, step in enumerate(steps, 1):
            self._progress(f"commits up to {step.until} of {until} (step {number} of {len(steps)})")
            self._leave(step)
            self._do(step)
        return until, after

    def _takes_over(self, since: int) -> bool:
        """Whether a table takes over the documents of a collection that is not followed. It begins again then."""
        if self._ledger.selection is None:
            return False
        return any(self._left(step) for step in self._steps(since, self._source.last_commit())[0])

    def _left(self, step: Step) -> list[tuple[str, str]]:
        """Return the tables that take over, in a step, the documents of a collection that the archive does not follow,
        with its name. Only a snapshot can tell what these documents were."""
        states = step.states if isinstance(step, Relocation) else {}
        named = ((TableName(COLLECTIONS, name), former) for name, former in states.items() if former is not None)
        return [
            (str(table), former)
            for table, former in named
            if self._follows(table) and not self._follows(TableName(COLLECTIONS, former))
        ]

    def _leave(self, step: Step) -> None:
        """Follow no longer, up to the end of this run, what cannot be followed from a step on."""
        for table, former in self._left(step):
            reason = f"taken over from the collection {former!r}, which the archive does not follow"
            self._later[table] = step.until - 1, reason

    def _with_snapshot(self, since: int, added: set[str] | None) -> tuple[int, Routes]:
        """Archive a pinned snapshot of the tables in ``added``, and of those that take over unfollowed documents, while
        the log has the rest; or, with None, of all tables."""
        with self._source.pinned() as state:
            until, routes = state.pin.ts, state.routes
            if added is not None:
                self._later = dict.fromkeys(added, (0, BEFORE))
                self._through_log(since, until)
                begun, self._later = self._later, {}
            else:
                begun = {}
            known = {*state.keyspaces, *tables_in(self._archive)}
            chosen = [each for each in known if self._follows(each) and (added is None or str(each) in begun)]
            for number, table in enumerate(sorted(chosen, key=str), 1):
                self._progress(f"snapshot of {table} at commit {until} ({number} of {len(chosen)})")
                self._snapshot(table, state)
            if added is None:
                first = self._ledger.last_run is None
                self._note(since, until, BEFORE if first else "no longer in the store's log", None)
            for begin, reason in sorted(set(begun.values())):
                tables = sorted(name for name, each in begun.items() if each == (begin, reason))
                self._note(begin, until, reason, tables)
            return until, routes

    def _note(self, since: int, until: int, reason: str, tables: list[str] | None) -> None:
        """Record that the commits between two others are not in the archive."""
        if until > since + 1:
            self._totals.gaps.append(
                CommitGap(since, until, reason, None if tables is None else tuple(tables), lost=reason != BEFORE)
            )
            self._ledger.add(GAP, since=since, until=until, detail={"reason": reason, "tables": tables})

    def _routes(self, since: int) -> Routes:
        run = self._ledger.last_run
        return Routes(run.detail["routes"]) if run is not None and since else Routes()

    def _finish(self, since: int, until: int, routes: Routes, report: ArchiveReport) -> None:
        time = self._source.time_of(until)
        self._ledger.add(
            RUN,
            application=(RUNS, until),
            since=since,
            until=until,
            time=None if time is None else datetime.fromtimestamp(time, UTC),
            detail={
                "routes": dict(routes.moved),
                "prefixes": self._prefixes(until, routes),
                "followed": names(self._ledger.selection),
                **report.to_dict(),
            },
        )

    def _prefixes(self, until: int, routes: Routes) -> dict[str, str]:
        """Return the key prefixes of what is archived. They make the rest of a lost store's log readable."""
        known = self._source.keyspaces(until).items()
        return {name: prefix.hex() for name, prefix in known if routes.is_replayed(name)}

    # Tables

    def _follows(self, table: TableName) -> bool:
        selection = self._ledger.selection
        if str(table) in self._later:
            return False
        return selection is None or str(table) in selection or str(table) == _CATALOG

    def _table(self, name: TableName) -> VersionTable:
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = table_at(self._archive, name)
        return found

    # Steps

    def _do(self, step: Step) -> None:
        if isinstance(step, LogSpan):
            self._totals.add(self._span(step.since, step.until, step.routes))
        else:
            self._relocate(step)

    def _span(self, since: int, until: int, routes: Routes, without: frozenset[str] = frozenset()) -> dict[str, int]:
        """Archive what the log has of these commits, except for the collections ``without``."""
        prefixes: dict[bytes, int] = {}
        tables: list[VersionTable] = []
        for keyspace, prefix in self._source.keyspaces(until).items():
            name = routes.table_of(keyspace)
            if name is None or not self._follows(name) or (name.folder == COLLECTIONS and name.name in without):
                continue
            table = self._table(name)
            table.reload()
            if table.archived < until:
                prefixes[prefix] = len(tables)
                tables.append(table)
        parts = self._source.log_parts(since, until)

        def job(targets: Mapping[int, Target]) -> Iterable[Written]:
            by_prefix = {prefix: targets[number] for prefix, number in prefixes.items()}
            return run_parts(self._spark, parts, log_task(by_prefix))

        return Publisher(self._spark, tables).publish(job, until) if tables else {}

    def _relocate(self, move: Relocation) -> None:
        """Archive a commit that gives collections other keyspaces."""
        states = {name: self._state_after(move, name, former) for name, former in move.states.items()}
        changed = frozenset([*states, *(each.name for each in move.loads)])
        for name, state in states.items():
            self._become(TableName(COLLECTIONS, name), state, move.ts, move.time)
        for swap in move.loads:
            self._load(swap)
        self._totals.add(self._span(move.ts - 1, move.ts, move.routes, changed))

    def _state_after(self, move: Relocation, name: str, former: str | None) -> DataFrame:
        """Return the state of a collection after a commit: what ``former`` had before, and the commit's own writes."""
        written = self._writes(move, move.routes.keyspace_of(name))
        own = [(key.hex(), raw_text(value)) for key, value in written.items() if value is not None]
        rows = self._spark.createDataFrame(own, f"{KEY} string, {RAW} string")
        if former is None:
            return rows
        table = self._table(TableName(COLLECTIONS, former))
        if not table.exists:
            return rows
        before = visible(self._spark, table, move.ts - 1).select(KEY, RAW)
        if written:
            before = before.where(~F.col(KEY).isin([key.hex() for key in written]))
        return before.unionByName(rows)

    def _writes(self, move: Relocation, keyspace: str) -> dict[bytes, bytes | None]:
        prefix = self._source.keyspaces(move.ts).get(keyspace)
        log = self._source.path / "log", self._source.location.store_id
        found: dict[bytes, bytes | None] = {}
        for commit in commits_in(CommitRange(*log, move.ts - 1, move.ts)):
            for full_key, value in commit.writes.items():
                if full_key[:KEYSPACE_PREFIX] == prefix:
                    found[full_key[KEYSPACE_PREFIX:]] = value
        return found

    def _become(self, name: TableName, state: DataFrame, ts: int, time: float) -> None:
        """Bring a table to a state, as of one commit."""
        table = self._table(name)
        table.reload()
        if not self._follows(name) or table.archived >= ts:
            return

        def job(targets: Mapping[int, Target]) -> Iterable[Written]:
            return reconcile(self._spark, table, targets[0], state=state, version=ts, time=time)

        self._totals.add(Publisher(self._spark, [table]).publish(job, ts))

    def _load(self, swap: Swap) -> None:
        """Archive what a bulk load did."""
        name = TableName(COLLECTIONS, swap.name)
        table = self._table(name)
        table.reload()
        if not self._follows(name) or table.archived >= swap.ts:
            return
        cuts = self._source.load_cuts(swap.changes)
        bounds = zip([b"", *cuts], [*cuts, None], strict=True)
        parts = [LoadPart(self._source.location, swap, low, high) for low, high in bounds]

        def job(targets: Mapping[int, Target]) -> Iterable[Written]:
            return run_parts(self._spark, parts, load_task(targets[0]))

        self._totals.add(Publisher(self._spark, [table]).publish(job, swap.ts))

    def _snapshot(self, name: TableName, state: PinnedState) -> None:
        """Bring a table to what the store has at a pin."""
        keyspace = state.keyspaces.get(name)
        parts = [] if keyspace is None else self._source.snapshot_parts(state, keyspace)
        table = self._table(name)
        if table.exists:
            found = state_of(self._spark, parts, is_keyspace=name.is_keyspace)
            self._become(name, found, state.pin.ts, state.time)
            return

        def job(targets: Mapping[int, Target]) -> Iterable[Written]:
            return insert_parts(self._spark, targets[0], parts, state.pin.ts, state.time)

        self._totals.add(Publisher(self._spark, [table]).publish(job, state.pin.ts))
