"""The commit: validate, assign timestamps, log and publish, one group at a time.

``CommitQueue`` decides which requests are in a group, and which thread commits it: the leader. The leader validates
them in queue order, writes the accepted ones to the log with one system call, and publishes them.

Who writes: only the leader changes shared state: the log, then the chains, then ``published``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.prune import prune
from lowtide.engine.log.frame import told_as_there
from lowtide.engine.log.writer import LogWriter
from lowtide.engine.transaction.callbacks import Callback
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.queue import CommitQueue
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.transaction.request import Alone, Request, open_gate
from lowtide.engine.transaction.telling import tell
from lowtide.engine.transaction.validate import Clash, Validator
from lowtide.engine.transaction.yielding import give_way
from lowtide.engine.types import Names, Writes
from lowtide.engine.versions.layers import VersionStore
from lowtide.errors import ConflictError, Error, TransientError

logger = logging.getLogger("lowtide")


class Committer(CommitQueue):
    """Makes every change to the store.

    Under the commit lock, ``show`` is called with each timestamp that is published, and ``after_commit`` after each
    group. ``collect_later`` is called when versions that no snapshot sees may be left.
    """

    def __init__(
        self,
        *,
        log: LogWriter,
        versions: VersionStore,
        registry: Registry,
        validator: Validator,
        collector: str,
        keep_before: bool,
        catalog: Catalog,
        after_commit: Callable[[], None],
        show: Callable[[int], None],
        collect_later: Callable[[], None],
    ) -> None:
        super().__init__()
        self._log = log
        self._versions = versions
        self._registry = registry
        self._validator = validator
        self._collector = collector
        self._keep_before = keep_before
        self._catalog = catalog
        self._after_commit = after_commit
        self._show = show
        self._collect_later = collect_later
        self._collected = 0
        self.collect_failures = 0
        self.conflicts = 0
        """The number of commits refused so far because of a conflict; written under the commit lock."""
        self.closed: Error | None = None

    @property
    def collected(self) -> int:
        """The number of versions dropped from chains so far; written under the commit lock."""
        return self._collected + self._versions.replaced

    def _commit(self, group: list[Request]) -> None:
        """Validate, log and publish a group. The caller holds the lock."""
        accepted: list[Request] = []
        logged_before = self._log.last_ts
        try:
            if self.closed is not None:
                raise self.closed
            self._validate(group, accepted)
            if accepted:
                durably = any(request.durably for request in accepted)  # point: commit.log
                self._registry.syncing = durably
                self._log.append_group(accepted[0].ts, [request.payload for request in accepted], durably)
                self._registry.syncing = False
                self._publish(accepted)  # point: commit.publish
        except BaseException as error:
            self._abort(group, accepted if self._log.last_ts > logged_before else [], error)
            if not isinstance(error, Exception):
                self._after_commit()
                raise
        finally:
            for request in group:
                request.done = True
                if request.gate is not None:
                    open_gate(request.gate)
        self._after_commit()

    def commit_alone(self, request: Request) -> None:
        """The same as ``_commit``, for a single request: the common case. The caller holds the lock, and raises the
        request's error."""
        log, registry = self._log, self._registry
        logged_before = log.last_ts
        try:
            if self.closed is not None:
                raise self.closed
            # Usually nothing was committed after a lone statement's instant. Then there is nothing to validate.
            if (request.alone is None or request.seen != registry.published) and not self._may_commit(request, ()):
                return
            request.ts = ts = registry.published + 1
            self._log_and_publish(
                ts, request.writes, request.payload, request.durably, names=request.names, callbacks=request.callbacks
            )
        except BaseException as error:
            self._abort([request], [request] if log.last_ts > logged_before else [], error)
            if not isinstance(error, Exception):
                self._after_commit()
                raise
        finally:
            request.done = True
        self._after_commit()

    def _commit_unchanged(self, writes: Writes, payload: bytes, seen: int, token: int, durably: bool) -> int:
        registry = self._registry
        if self.closed is not None or registry.published != seen:
            return 0
        log, versions, ts = self._log, self._versions, seen + 1
        failed: Request | None = None
        logged_before = log.last_ts
        try:
            # As in ``_may_commit``: if there is nothing to compare, the snapshot only has to be live still.
            if token and (gone := registry.settle(token)) is not None:
                raise gone
            # The same as ``_log_and_publish``, without calls for a single key: most commits come here.
            registry.syncing = durably
            log.append(ts, payload, durably)  # point: commit.log
            registry.syncing = False
            if len(writes) == 1:
                ((key, value),) = writes.items()
                grown = [key] if versions.publish_one(ts, key, value, registry) else None  # point: commit.publish
            else:
                grown = versions.publish(ts, writes)  # point: commit.publish
                registry.published = ts  # point: commit.visible
            self._show(ts)
            if registry.serializable or self._validator.recent.commits:
                self._remember([(ts, writes)])
            if grown:
                self._collect_safely(grown)
        except BaseException as error:
            failed = Request(writes=writes, seen=seen, time=0.0, payload=payload, durably=durably, names=None)
            failed.token, failed.ts = token, ts
            self._abort([failed], [failed] if log.last_ts > logged_before else [], error)
            if not isinstance(error, Exception):
                self._after_commit()
                raise
        self._after_commit()
        if failed is not None and failed.error is not None:
            raise failed.error
        return ts

    def _log_and_publish(
        self,
        ts: int,
        writes: Writes,
        payload: bytes,
        durably: bool,
        *,
        names: Names | None = None,
        callbacks: list[Callback] | None = None,
    ) -> None:
        """Write one validated commit to the log, then to its chains, and make it visible."""
        registry, versions = self._registry, self._versions
        registry.syncing = durably
        self._log.append(ts, payload, durably)  # point: commit.log
        registry.syncing = False
        grown = versions.publish(ts, writes)  # point: commit.publish
        if names is not None:
            self._name(names)
        registry.published = ts  # point: commit.visible
        self._show(ts)
        if registry.serializable or self._validator.recent.commits:
            self._remember([(ts, writes)])
        if callbacks is not None:
            self.callbacks.line_up(ts, callbacks)
        if grown:
            self._collect_safely(grown)

    def _abort(self, group: list[Request], logged: list[Request], error: BaseException) -> None:
        """Fail the requests that did not reach the log. Publish those that did: the log must not contain a commit that
        stays invisible."""
        self._registry.syncing = False
        if logged:
            self._publish_again(logged)
        if not isinstance(error, Exception):
            error = TransientError(f"the commit was interrupted ({error!r}); nothing was written; retry")
        for request in group:
            self._registry.release(request.token)
            if request.error is None and not 0 < request.ts <= self._registry.published:
                request.error = error

    def _publish_again(self, accepted: list[Request]) -> None:
        """Finish a publication that was interrupted. If that fails too, no further commit may be accepted."""
        try:
            if self._registry.published < accepted[-1].ts:
                self._publish(accepted)
            self._versions.active.recount()
            self._validator.recent.forget_all(accepted[-1].ts)
        except BaseException as error:
            self._log.failure = error

    def _validate(self, group: list[Request], accepted: list[Request]) -> None:
        """Assign timestamps to the members of a group that may commit, in queue order."""
        ts = self._registry.published
        for request in group:
            # A request that is done was left in the queue by an interrupted leader.
            if not request.done and self._may_commit(request, accepted):
                ts += 1
                request.ts = ts
                accepted.append(request)

    def _may_commit(self, request: Request, earlier: Sequence[Request]) -> bool:
        """Decide whether a request may commit after ``earlier``, the accepted members of its group. If not, its
        ``error`` says why, unless it has nothing to write. The caller holds the lock."""
        if request.alone is not None:
            return self._may_commit_alone(request, request.alone, earlier)
        guards = request.guards
        # What it relies on was read at its snapshot: if nothing was committed since, there is nothing to compare.
        if guards is not None and (
            earlier or request.token <= 0 or request.seen != self._registry.published or guards.yielding is not None
        ):
            request.error = self._unguarded(request, guards, earlier)
        if request.token:
            clash = self._validator.clash(request, earlier, self._registry.published)  # point: commit.validate
            # Checked after validation, which relies on it.
            gone = self._registry.settle(request.token) if request.lease is None else request.lease()
            if gone is not None:
                request.error = gone
            elif clash is not None:
                request.error = self._conflict(request, clash)
            elif request.merged:
                places = [place for place, key in enumerate(request.writes) if key in (request.merged or ())]
                request.payload = told_as_there(request.payload, places, [*request.writes.values()])
        elif not request.untold and (earlier or request.seen != self._registry.published):
            self._tell_again(request, earlier)
        if request.untold and request.error is None:
            self._tell_again(request, earlier)
        return request.error is None

    def _may_commit_alone(self, request: Request, statement: Alone, earlier: Sequence[Request]) -> bool:
        """The same as ``_may_commit``, for a statement without a snapshot. If it runs again, it may have nothing to
        write."""
        if not earlier and request.seen == self._registry.published:
            return True
        clash = self._validator.lone_clash(request, statement, earlier)  # point: commit.alone
        if clash is not None and not statement.again(request, earlier):
            request.error = self._conflict(request, clash)
        return request.error is None and bool(request.writes)

    def _tell_again(self, request: Request, earlier: Sequence[Request]) -> None:
        """Encode again the values before a request that is not validated, if one of its keys has changed since it was
        read; or encode them for a request that lacks them. The base alone cannot tell whether a key has changed: a
        deletion leaves no trace there."""
        writes, seen, changed = request.writes, request.seen, Writes()
        for each in earlier:
            if not each.writes.keys().isdisjoint(writes.keys()):
                changed.update(each.writes)
        told = not changed and not request.untold and seen >= self._versions.boundary
        if told and self._validator.write_clash(writes, seen) is None:
            return
        latest = self._validator.latest
        tell(request, [changed[key] if key in changed else latest(key) for key in writes], self._keep_before)

    def _conflict(self, request: Request, clash: Clash, seen: int | None = None) -> ConflictError:
        self.conflicts += 1
        keyspace, key = self._catalog.describe(clash[0])
        return ConflictError(
            keyspace, key, request.seen if seen is None else seen, clash[1], read=clash[0] not in request.writes
        )

    def _unguarded(self, request: Request, guards: Guards, earlier: Sequence[Request]) -> TransientError | None:
        """Why a request's guards do not hold."""
        if guards.yielding is not None:
            give_way(request, guards.yielding, self._validator, earlier, self._keep_before)
        if (clash := self._validator.guard_clash(guards, earlier)) is not None:
            return self._conflict(request, clash, guards.seen(clash[0]))
        registration = guards.registration  # after validation, which relies on it
        if request.lease is not None:
            return request.lease()
        return self._registry.gone(registration.token) if registration is not None else None

    def _publish(self, accepted: list[Request]) -> None:
        """Add the commits to their chains, make them visible together, and drop versions that no snapshot sees any
        more."""
        versions, registry = self._versions, self._registry
        grown: list[bytes] = []
        for request in accepted:
            grown += versions.publish(request.ts, request.writes)
            if request.names is not None:
                self._name(request.names)
        registry.published = accepted[-1].ts  # point: commit.visible
        self._show(registry.published)  # to other processes, before any member is told
        # After publication: a serializable transaction that is missed here draws a timestamp that includes these
        # commits.
        if registry.serializable or self._validator.recent.commits:
            self._remember([(request.ts, request.writes) for request in accepted])
        for request in accepted:
            if request.callbacks is not None:
                self.callbacks.line_up(request.ts, request.callbacks)
        if grown:
            self._collect_safely(grown)

    def _remember(self, commits: list[tuple[int, Writes]]) -> None:
        """Keep the keys of the commits for live serializable transactions, and drop those that none of them needs."""
        recent = self._validator.recent
        if self._registry.serializable:
            for ts, writes in commits:
                recent.remember(ts, writes)
        recent.trim(self._registry.oldest_serializable())

    def _name(self, names: Names) -> None:
        """Record new keyspaces. This happens before publication, so that the next checkpoint has the names of every
        visible commit."""
        self._versions.active.names.update(names)
        self._catalog.logged(names)

    def _collect_safely(self, keys: list[bytes]) -> None:
        """Drop versions that this commit superseded. A failure here never fails the commit: it is counted and
        logged."""
        try:
            if self._registry.live:
                horizon = self._horizon()
                pruned = partial(prune, horizon=horizon)  # point: collect.judge
                unseen_after = horizon.unseen_after
                held = self._versions.active.held
                nothing_held = not held
                self._collected += self._versions.drop_superseded(keys, horizon.needs, pruned, unseen_after)
                # A snapshot that ends looks at ``held`` after it has left ``live``; here it is the other way round. So
                # if versions were kept for a snapshot that has ended, one of the two notices.
                if nothing_held and held and not self._registry.has_all(horizon.live):
                    self._collect_later()
            else:
                self._collected += self._versions.keep_newest(keys)
        except Exception as error:
            self.collect_failures += 1
            self._versions.active.held.update(dict.fromkeys(keys))
            logger.warning("collecting versions failed, the commit stands: %s", error)

    def _horizon(self) -> Exact:
        bound = self._registry.published
        return make_horizon(self._collector, self._registry.timestamps(), bound)  # point: collect.sampled

    def collect(self, budget: int, *, newest: bool = False) -> int:
        """Prune up to ``budget`` chains that have more than one version. Begins with those that have had more than one
        for the longest time or, if ``newest``, for the shortest. The caller holds the commit lock."""
        horizon = self._horizon()
        held = self._versions.active.held
        keys = list(islice(reversed(held) if newest else held, budget))
        dropped = self._versions.prune(keys, partial(prune, horizon=horizon))  # point: collect.prune
        self._collected += dropped
        return dropped
