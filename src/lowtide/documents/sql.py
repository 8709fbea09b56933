"""SQL over collections: DuckDB reads them as Arrow tables of one snapshot (extra ``sql``).

Each statement must be a query. It runs in an in-memory DuckDB, on a connection that sees only the collections that the
statement names: no files, no network, no variables of the program, no settings.

A collection is streamed while the query runs. Only the columns that the query needs are read, only the documents that
an index finds for its conditions, and no more than its LIMIT takes. The columns and their types come from the first
documents. If a later document does not fit them, or DuckDB misses a column, the query runs again over tables of all
documents.

Only the columns that the statement names are loaded into these tables, if its syntax tree shows them. Otherwise (``*``,
whole rows, natural joins and the like), or if DuckDB misses a column, all columns are loaded.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from lowtide.documents.query_engine import connect
from lowtide.errors import OperationFailure, shown
from lowtide.system.extras import require

_SHOWN_ROWS: Final = 20
_SHOWN_WIDTH: Final = 40
_QUERIES: Final = frozenset(("SELECT", "EXPLAIN", "MULTI"))
"""The statement types that only read. MULTI is a PIVOT whose columns are found by a separate query."""
_SOURCES: Final = frozenset(("BASE_TABLE", "JOIN", "SUBQUERY", "EMPTY", "TABLE_FUNCTION", "EXPRESSION_LIST"))
"""FROM elements that use only the columns named in the statement."""
_CLAUSES: Final = frozenset(
    [
        "SELECT_NODE",
        "SET_OPERATION_NODE",
        "RECURSIVE_CTE_NODE",
        "CTE_NODE",
        "ORDER_MODIFIER",
        "LIMIT_MODIFIER",
        "LIMIT_PERCENT_MODIFIER",
        "DISTINCT_MODIFIER",
        "ORDER_DEFAULT",
        "ASCENDING",
        "DESCENDING",
    ]
)
"""Syntax tree keys other than expressions. If the tree has any unknown key, all columns are loaded."""

Parameters = Sequence[Any] | Mapping[str, Any] | None


class SqlTables(Protocol):
    """The collections of one snapshot."""

    def collections(self) -> Sequence[str]:
        """Return the names of the collections."""

    def table(self, name: str, columns: list[str] | None) -> Any:
        """Return a collection as a ``pyarrow.Table`` of all or the named columns. A column without values is null."""

    def stream(self, name: str) -> SqlStream | None:
        """Return a collection that is read while the query runs; None if it can only be loaded."""


class SqlStream(Protocol):
    """A collection that is read while the query runs; see ``columnar/streaming.py``."""

    empty: bool
    complete: bool
    failure: Exception | None

    @property
    def names(self) -> list[str]: ...

    @property
    def uncovered(self) -> bool: ...

    def dataset(self, columns: Collection[str] | None, watched: Sequence[str] = ()) -> Any: ...


class SqlResult:
    """The result of a query. It can be read any number of times. ``columns`` are the column names.

    Iteration, ``fetchone`` and ``fetchall`` return rows as tuples. ``fetchone`` continues after the last row it
    returned.
    """

    def __init__(self, table: Any, integers: frozenset[int] = frozenset()) -> None:
        self.columns: list[str] = list(table.column_names)
        self._table = table
        self._integers = integers
        self._rows: Iterator[tuple[Any, ...]] | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self._table.to_batches(max_chunksize=4096):
            lists = [each.to_pylist() for each in batch.columns]
            for index in self._integers:
                lists[index] = [None if each is None else int(each) for each in lists[index]]
            yield from zip(*lists, strict=True)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return list(self)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last."""
        if self._rows is None:
            self._rows = iter(self)
        return next(self._rows, None)

    def to_arrow(self) -> Any:
        """Return the result as a ``pyarrow.Table``."""
        return self._table

    def to_pandas(self) -> Any:
        """Return the result as a ``pandas.DataFrame``."""
        require("pandas", None, "to_pandas()")
        return self._table.to_pandas()

    def to_polars(self) -> Any:
        """Return the result as a ``polars.DataFrame``."""
        return require("polars", None, "to_polars()").from_arrow(self._table)

    def __repr__(self) -> str:
        shown = SqlResult(self._table.slice(0, _SHOWN_ROWS), self._integers).fetchall()
        cells = [[_cell(each) for each in row] for row in (self.columns, *shown)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        count = len(self)
        total = f"({count:,} row{'s' if count != 1 else ''}{f', {len(shown)} shown' if len(shown) < count else ''})"
        return "\n".join([*lines, total])


def _cell(value: Any) -> str:
    text = "null" if value is None else " ".join(str(value).split())
    return text if len(text) <= _SHOWN_WIDTH else f"{text[: _SHOWN_WIDTH - 3]}..."


def query(sql: str, parameters: Parameters, source: SqlTables, *, external: bool = False) -> SqlResult:
    """Run one query over the collections of ``source``. ``?`` and ``$name`` are parameters.

    With ``external`` the query may read and write files and use the network, as DuckDB does by default.
    Raises OperationFailure, with DuckDB's message, if the query cannot be run.
    """
    if not isinstance(sql, str):
        raise OperationFailure(f"a query must be a string of SQL, got {shown(sql)}")
    if parameters is not None and (isinstance(parameters, str) or not isinstance(parameters, Mapping | Sequence)):
        raise OperationFailure(f"parameters must be a list, or a dict of names, got {shown(parameters)}")
    duckdb = require("duckdb", "sql", "SQL")
    require("pyarrow", "sql", "SQL")
    collections = list(source.collections())
    with connect(external=external) as connection:
        try:
            _check(connection.extract_statements(sql))
            tree = _tree(connection, sql)
            named = _named(connection, sql, tree, collections, duckdb)
            wanted = _wanted(tree)
            streams = {name: source.stream(name) for name in named}
            if _streamed(connection, streams, wanted):
                try:
                    found = _run(connection, sql, parameters)
                    if not any(stream is not None and stream.uncovered for stream in streams.values()):
                        return found
                except duckdb.Error as error:
                    _check_streams(error, streams, duckdb)
            for _ in _loads(connection, source, named, wanted):
                try:
                    return _run(connection, sql, parameters)
                except duckdb.BinderException as error:  # possibly because a column was left out
                    failure = error
            raise failure
        except duckdb.Error as error:
            raise _failure(error, collections) from error


def _run(connection: Any, sql: str, parameters: Parameters) -> SqlResult:
    relation = connection.sql(sql, params=parameters)
    large = frozenset(index for index, each in enumerate(relation.types) if str(each) in ("HUGEINT", "UHUGEINT"))
    return SqlResult(relation.to_arrow_table(), large)


def _check(statements: Sequence[Any]) -> None:
    if len(statements) != 1:
        raise OperationFailure(f"expected one SQL statement, got {len(statements)}")
    kind = statements[0].type.name
    if kind not in _QUERIES:
        raise OperationFailure(
            f"SQL is read-only, so {kind} cannot be run, only queries (SELECT); "
            "to write, use the methods of a collection, such as insert_one and update_many"
        )


def _tree(connection: Any, sql: str) -> Any:
    """Return the syntax tree of a SELECT; None for other statements."""
    [(text,)] = connection.execute("select json_serialize_sql(?::varchar)", [sql]).fetchall()
    tree = json.loads(text)
    return None if tree.get("error") else tree


def _named(connection: Any, sql: str, tree: Any, collections: list[str], duckdb: Any) -> list[str]:
    """Return the collections that the statement names, possibly with some that its WITH clause hides."""
    try:
        names = set(connection.get_table_names(sql))
    except (duckdb.BinderException, duckdb.InvalidInputException):  # it has parameters or several parts
        if tree is None:
            text = sql.casefold()
            names = {each for each in collections if each.casefold() in text}
        else:
            names = {each["table_name"] for each in _nodes(tree) if each.get("type") == "BASE_TABLE"}
    return _resolved(names, collections)


def _resolved(names: set[str], collections: list[str]) -> list[str]:
    """Return the collections of these names. SQL ignores case, but an exact match wins over others."""
    found: dict[str, str] = {}
    for name in sorted(names):
        fitting = [each for each in collections if each.casefold() == name.casefold()]
        exact = name if name in fitting else fitting[0] if len(fitting) == 1 else None
        if fitting and exact is None:
            raise OperationFailure(
                f"{name!r} is ambiguous; write it exactly as one of the collections {', '.join(fitting)}"
            )
        if exact is not None and found.setdefault(name.casefold(), exact) != exact:
            raise OperationFailure(
                f"SQL cannot distinguish {exact!r} from {found[name.casefold()]!r}; use only one of them"
            )
    return list(found.values())


@dataclass(slots=True)
class Wanted:
    """The columns that a statement names. ``outer`` says that a name may refer to a column of an outer query."""

    names: list[str] = field(default_factory=list)
    outer: bool = False


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a syntax tree."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def _wanted(tree: Any) -> Wanted | None:
    """Return the columns that a statement names; None if it may use others."""
    if tree is None:
        return None
    wanted = Wanted()
    tables: set[str] = set()
    alone: set[str] = set()
    for node in _nodes(tree):
        kind = node.get("type")
        if not isinstance(kind, str):
            continue
        if kind in ("STAR", "POSITIONAL_REFERENCE"):
            return None
        if kind == "COLUMN_REF":
            wanted.names += node["column_names"]
            if len(node["column_names"]) == 1:
                alone.add(node["column_names"][0].casefold())
        elif kind == "SUBQUERY":
            wanted.outer = True
        if "class" in node or kind in _CLAUSES:
            continue
        renamed = kind == "BASE_TABLE" and node.get("column_name_alias")
        if kind not in _SOURCES or node.get("ref_type") == "NATURAL" or renamed:
            return None
        tables |= {str(node.get(each, "")).casefold() for each in ("table_name", "alias")}
        wanted.names += node.get("using_columns") or ()
    return None if alone & tables else wanted


def _streamed(connection: Any, streams: Mapping[str, SqlStream | None], wanted: Wanted | None) -> bool:
    """Register the collections to be read while the query runs. Returns whether that is possible.

    It is not if a collection is empty, because its columns are unknown. It is not either if a name that seems to
    refer to an outer query could be a column that the sample lacks.
    """
    names = [] if wanted is None else list(dict.fromkeys(wanted.names))
    folded = {each.casefold() for each in names}
    known = {each.casefold() for stream in streams.values() if stream is not None for each in stream.names}
    datasets = {}
    for name, stream in streams.items():
        if stream is None or stream.empty:
            return False
        if wanted is None:
            datasets[name] = stream.dataset(None)
            continue
        here = {each.casefold() for each in stream.names}
        unknown = [] if stream.complete else [each for each in names if each.casefold() not in here]
        if wanted.outer and any(each.casefold() in known for each in unknown):
            return False
        columns = [each for each in stream.names if each.casefold() in folded or each == "_id"]
        datasets[name] = stream.dataset(columns, unknown)
    for name, dataset in datasets.items():
        connection.register(name, dataset)
    return True


def _check_streams(error: Exception, streams: Mapping[str, SqlStream | None], duckdb: Any) -> None:
    """Raise the error, unless the query may succeed with tables of all documents."""
    uncovered = False
    for stream in streams.values():
        if stream is not None and stream.failure is not None:
            raise stream.failure from error
        uncovered = uncovered or (stream is not None and stream.uncovered)
    if not uncovered and not isinstance(error, duckdb.BinderException):
        raise error


def _loads(connection: Any, source: SqlTables, named: list[str], wanted: Wanted | None) -> Iterator[None]:
    """Register the collections with as few columns as possible. Each further step registers more, the last one all."""
    if wanted is not None:
        columns = list(dict.fromkeys(["_id", *wanted.names]))
        tables = {name: source.table(name, columns) for name in named}
        nulls = {name: _null_columns(table) for name, table in tables.items()}
        missing = {each.casefold() for name in named for each in nulls[name]}
        found = {each.casefold() for name in named for each in tables[name].column_names if each not in nulls[name]}
        # A name that seems to refer to an outer query could be a column that is always null, or in another case.
        if not (wanted.outer and found & missing):
            empty = [name for name in named if not tables[name].num_rows]
            for name in named:
                connection.register(name, _without(tables[name], [] if name in empty else nulls[name]))
            yield
            for name in empty:  # an empty collection has no known columns, so drop those that other collections have
                connection.register(
                    name, _without(tables[name], [each for each in columns if each.casefold() in found])
                )
            if empty:
                yield
    for name in named:
        connection.register(name, _without(source.table(name, None), []))
    yield


def _null_columns(table: Any) -> list[str]:
    return [each.name for each in table.schema if str(each.type) == "null"]


def _without(table: Any, columns: list[str]) -> Any:
    """Drop columns from a table, but keep at least one, because DuckDB requires it."""
    left = table.drop_columns(columns)
    if left.num_columns:
        return left
    pyarrow = require("pyarrow", "sql", "SQL")
    return pyarrow.table({"_id": pyarrow.nulls(table.num_rows)})


def _failure(error: Exception, collections: list[str]) -> OperationFailure:
    text = str(error).strip()
    if "Table with name" in text:
        text += f"\nThe collections are: {', '.join(sorted(collections)) or 'none'}"
    return OperationFailure(text)
