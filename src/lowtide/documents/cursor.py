"""``Cursor``: the results of a query, which runs when the first result is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import TracebackType
from typing import Any

from lowtide.documents.filters import Filter
from lowtide.documents.indexes.spec import Keys, parse_keys
from lowtide.documents.plans.plan import Plan
from lowtide.documents.plans.planner import SortKeys
from lowtide.documents.prepared.bound import PreparedFilter
from lowtide.documents.prepared.statements import InstantView, few_of, located
from lowtide.documents.projection import Projection
from lowtide.documents.reader import CollectionReader, ReadCounts, decoding
from lowtide.documents.sorting import Sort, SortSpec, compile_sort
from lowtide.engine import EngineSnapshot, HeldRead, Statements
from lowtide.errors import OperationFailure, UsageError, shown
from lowtide.values.codec import decode_document
from lowtide.values.values import Document

Hint = str | Keys


class Cursor:
    """An iterator over the results of ``collection.find``.

    A cursor reads one snapshot. In a transaction or a snapshot it is theirs. On the store, the cursor takes one when
    its first result is requested, and releases it when it is exhausted, closed or garbage-collected. Use a cursor in
    one thread at a time.

    >>> users = store.collection("users")
    >>> [user["name"] for user in users.find({"age": {"$gte": 30}}).sort("age", -1)]
    ['Ann', 'Bob']
    """

    __slots__ = (
        *("__weakref__", "_empty", "_filter", "_held", "_hint", "_limit", "_name", "_projection", "_results", "_skip"),
        *("_sort", "_spec", "_statements", "alive"),
    )

    def __init__(
        self, statements: Statements, name: str, filter: Filter, projection: Projection | None, spec: object = None
    ) -> None:
        """``spec`` is the filter as the caller gave it, for ``repr``."""
        self._spec = spec
        self._statements = statements
        self._name = name
        self._filter = filter
        self._projection = projection
        self._sort: Sort | None = None
        self._skip = 0
        self._limit = 0
        self._empty = False
        """Whether an empty slice was requested. Needed because a limit of 0 means no limit."""
        self._hint: str | SortKeys | None = None
        self._held: HeldRead | None = None
        self._results: Iterator[Document] | None = None
        self.alive = True
        """False once the cursor is exhausted or closed."""

    def sort(self, key_or_list: SortSpec, direction: int | None = None) -> Cursor:
        """Sort the results by a field, by pairs of field and direction, or by a field and its direction.

        >>> [user["_id"] for user in store.collection("users").find().sort([("city", 1), ("age", -1)])]
        [3, 1, 2]
        """
        self._check_not_begun()
        self._sort = compile_sort(key_or_list, direction)
        return self

    def skip(self, skip: int) -> Cursor:
        """Skip the first ``skip`` results.

        >>> [user["_id"] for user in store.collection("users").find().skip(2)]
        [3]
        """
        self._check_not_begun()
        self._skip = check_count("skip", skip)
        return self

    def limit(self, limit: int) -> Cursor:
        """Return at most ``limit`` results (0: no limit).

        >>> [user["_id"] for user in store.collection("users").find().limit(2)]
        [1, 2]
        """
        self._check_not_begun()
        self._limit = abs(check_count("limit", limit, least=-(1 << 62)))
        self._empty = False
        return self

    def hint(self, index: Hint | None) -> Cursor:
        """Use this index, given its name or its keys. ``"$natural"`` uses none.

        >>> store.collection("users").find().hint("_id_").explain()["executionStats"]["nReturned"]
        3
        """
        self._check_not_begun()
        self._hint = parse_hint(index)
        return self

    def _check_not_begun(self) -> None:
        if self._results is not None or not self.alive:
            raise UsageError(
                "the cursor has already started; set sort, skip, limit and hint before the first result, or clone it"
            )

    def _run(self, reader: CollectionReader, touched: ReadCounts | None = None) -> Iterator[Document]:
        if self._empty:
            return iter(())
        filter, sort = self._filter, self._sort
        limit = self._limit + self._skip if self._limit else 0
        by = reader.plan(filter, sort, self._hint, limited=bool(limit))
        decode, projection = decoding(self._projection, filter, by, sort)
        if touched is None:
            found = reader.documents(filter, by, sort, limit, decode)
        else:
            found = (each[2] for each in reader.matching(filter, by, sort, limit, touched))
        if self._skip:
            found = islice(found, self._skip, None)
        return found if projection is None else map(projection, found)

    def __iter__(self) -> Iterator[Document]:
        """Iterate over the remaining results; faster than ``next``. A loop that was left can be continued."""
        ending: Callable[[], Any] = self.close
        return chain(self._begun(), iter(ending, None))

    def _few(self, instant: InstantView) -> Iterator[Document] | None:
        """Return the results if they are few and a prepared statement finds them, else None. May also return the first
        results, followed by those that a plan finds."""
        filter = self._filter
        if type(filter) is not PreparedFilter or self._hint is not None or self._empty:
            return None
        sort, skip = self._sort.keys if self._sort is not None else (), self._skip
        where, most = located(instant, self._name), self._limit + skip if self._limit else 0
        few = few_of(instant, where, filter, sort, most, begun=not skip)
        if few is None:
            return None
        projection = self._projection
        decode = projection.decode if projection is not None else decode_document
        found: Iterator[Document] = map(decode, few.stored[skip:] if skip else few.stored)
        if few.rest is not None:
            # Held from now on: later writes of the transaction are not part of the results.
            return chain(found, self._reader().documents(filter, few.rest, decode=decode))
        if self._held is not None:
            self._held.close()
            self._held = None
        return found

    def _reader(self) -> CollectionReader:
        if self._held is None:
            self._held = self._statements.hold()
        return CollectionReader(self._held.reading, self._held.prefix_of, self._name)

    def _begun(self) -> Iterator[Document]:
        if not self.alive:
            return iter(())
        if self._results is None:
            instant: InstantView | None = self._statements.instant()
            if instant is None and type(self._filter) is PreparedFilter:
                self._held = held = self._statements.hold()
                # The snapshot of a cursor on the store; not one of a pin that is limited to some keyspaces.
                if isinstance(held.reading, EngineSnapshot) and held.reading.keyspaces is None:
                    instant = held.reading
            if instant is not None:
                self._results = self._few(instant)
        if self._results is None:
            self._results = self._run(self._reader())
        return self._results

    def __next__(self) -> Document:
        """Return the next result. Raises StopIteration after the last.

        >>> store.collection("users").find().next()["name"]
        'Ann'
        """
        for document in self._begun():
            return document
        self.close()
        raise StopIteration

    next = __next__

    def __getitem__(self, index: int | slice) -> Any:
        """Return the result at an index, or set skip and limit from a slice. Only before the first result is read.

        >>> users = store.collection("users")
        >>> users.find().sort("age")[0]["name"], [user["_id"] for user in users.find()[1:3]]
        ('Cid', [2, 3])
        """
        self._check_not_begun()
        if isinstance(index, slice):
            start, stop = index.start or 0, index.stop
            if index.step is not None or start < 0 or (stop is not None and stop < start):
                raise IndexError(f"a cursor slice must have 0 <= start <= stop and no step, got {index}")
            self.skip(start).limit(stop - start if stop is not None else 0)
            self._empty = stop == start
            return self
        if isinstance(index, int) and index < 0:
            raise IndexError(f"a cursor index must be at least 0, got {index}")
        for document in self.clone().skip(self._skip + check_count("an index", index)).limit(1):
            return document
        raise IndexError(f"the cursor has no result {index}")

    def to_list(self, length: int | None = None) -> list[Document]:
        """Return the remaining results, or the first ``length`` of them, as a list.

        >>> len(store.collection("users").find().to_list())
        3
        """
        if length is None:
            found = list(self._begun())
            self.close()
            return found
        return list(islice(self._begun(), check_length(length)))

    def explain(self) -> dict[str, Any]:
        """Run the query and return its plan, in MongoDB's form, with the numbers of keys and documents examined.

        >>> plan = store.collection("users").find({"_id": 2}).explain()
        >>> plan["queryPlanner"]["winningPlan"]["stage"], plan["executionStats"]["totalDocsExamined"]
        ('IDSCAN', 1)
        """

        def work(reading: Any, prefix_of: Callable[[str], bytes]) -> dict[str, Any]:
            reader, touched = CollectionReader(reading, prefix_of, self._name), ReadCounts()
            by = reader.plan(self._filter, self._sort, self._hint, limited=bool(self._limit))
            returned = sum(1 for _ in self._run(reader, touched))
            return explained(self._name, by, self._sort, returned, touched)

        return self._statements.read(work)

    def clone(self) -> Cursor:
        """Return a new cursor with the same query.

        >>> cursor = store.collection("users").find()
        >>> next(cursor) == next(cursor.clone())
        True
        """
        other = Cursor(self._statements, self._name, self._filter, self._projection, self._spec)
        other._sort, other._skip, other._limit, other._hint = self._sort, self._skip, self._limit, self._hint
        other._empty = self._empty
        return other

    def rewind(self) -> Cursor:
        """Return to the start. On the store, the cursor will read a new snapshot.

        >>> cursor = store.collection("users").find()
        >>> next(cursor) == next(cursor.rewind())
        True
        """
        self.close()
        self._results, self.alive = None, True
        return self

    def __repr__(self) -> str:
        """Show the query and the cursor's state.

        >>> store.collection("users").find({"city": "Oslo"}).sort("age", -1).limit(5)
        <cursor of collection 'users', filter={'city': 'Oslo'}, sort=[('age', -1)], limit=5, not begun>
        """
        parts = [f"cursor of collection {self._name!r}"]
        parts += [f"filter={shown(self._spec)}"] if self._spec else []
        parts += [f"sort={list(self._sort.keys)}"] if self._sort is not None else []
        parts += [f"skip={self._skip}"] if self._skip else []
        parts += [f"limit={self._limit}"] if self._limit else ["empty"] if self._empty else []
        parts += [f"hint={self._hint!r}"] if self._hint is not None else []
        state = "not begun" if self._results is None else "open" if self.alive else "closed"
        return f"<{', '.join(parts)}, {state}>"

    def close(self) -> None:
        """Release the snapshot. Can be called more than once.

        >>> store.collection("users").find().close()
        """
        self.alive = False
        self._results = iter(())
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Results:
    """An iterator over the results of ``collection.aggregate``. It is closed in the same way as a cursor."""

    def __init__(
        self, documents: Iterator[Document], held: HeldRead, name: str, explain: Callable[[], dict[str, Any]]
    ) -> None:
        self._documents = documents
        self._held: HeldRead | None = held
        self._name = name
        self._explain = explain

    def explain(self) -> dict[str, Any]:
        """Run the pipeline again and return its plan.

        ``$cursor`` describes the query, as ``Cursor.explain`` does. The other entries say how many documents each stage
        returned. These results are not consumed.

        >>> pipeline = [{"$match": {"_id": {"$gte": 2}}}, {"$group": {"_id": "$city"}}]
        >>> stages = store.collection("users").aggregate(pipeline).explain()["stages"]
        >>> stages[0]["$cursor"]["queryPlanner"]["winningPlan"]["stage"], stages[1]["nReturned"]
        ('IDSCAN', 2)
        """
        return self._explain()

    def __repr__(self) -> str:
        return f"<results of aggregate on collection {self._name!r}, {'open' if self._held is not None else 'closed'}>"

    def __iter__(self) -> Results:
        return self

    def __next__(self) -> Document:
        for document in self._documents:
            return document
        self.close()
        raise StopIteration

    def to_list(self, length: int | None = None) -> list[Document]:
        """Return the remaining results, or the first ``length`` of them, as a list.

        >>> store.collection("users").aggregate([{"$count": "users"}]).to_list()
        [{'users': 3}]
        """
        found = list(islice(self._documents, None if length is None else check_length(length)))
        if length is None:
            self.close()
        return found

    def close(self) -> None:
        """Release the snapshot. Can be called more than once.

        >>> store.collection("users").aggregate([]).close()
        """
        self._documents = iter(())
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def explained(name: str, by: Plan, sort: Sort | None, returned: int, touched: ReadCounts) -> dict[str, Any]:
    """Describe a plan and its execution, in MongoDB's form."""
    stage = by.described()
    if sort is not None and not by.ordered:
        stage = {"stage": "SORT", "sortPattern": dict(sort.keys), "inputStage": stage}
    return {
        "queryPlanner": {"namespace": name, "winningPlan": stage},
        "executionStats": {
            "nReturned": returned,
            "totalKeysExamined": touched.keys,
            "totalDocsExamined": touched.documents,
        },
    }


def check_length(length: Any) -> int:
    """Return ``length`` if ``to_list`` accepts it."""
    if check_count("length", length) < 1:
        raise UsageError(f"length must be at least 1, or None for all results, got {length}")
    return int(length)


def check_count(name: str, value: Any, least: int = 0) -> int:
    """Return ``value`` if it is a number of documents."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OperationFailure(f"{name} must be an integer of at least {max(0, least)}, got {shown(value)}")
    return value


def parse_hint(hint: Hint | Mapping[str, int] | Sequence[Any] | None) -> str | SortKeys | None:
    """Return the name of an index, or its keys."""
    if hint is None or isinstance(hint, str):
        return hint
    pairs = list(hint.items()) if isinstance(hint, Mapping) else list(hint) if isinstance(hint, Sequence) else []
    if pairs and pairs[0] in (("$natural", 1), ("$natural", -1)):
        return (pairs[0],)
    return parse_keys(hint)
