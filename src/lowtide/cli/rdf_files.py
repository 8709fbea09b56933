"""``lowtide rdf load`` and ``dump``: statements out of files and into them."""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, cast

import typer

import lowtide
from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.output import Advance, Output, measured
from lowtide.cli.rdf_arguments import DEFAULT_QUADS, QuadsName, graph_of, looking_at_quads, require_rdf
from lowtide.cli.reach import find_store, writing
from lowtide.documents.files.streams import STANDARD, FileSource, reading_from, writing_to
from lowtide.engine import LmdbError
from lowtide.errors import Error, UsageError

if TYPE_CHECKING:
    from rdflib.term import Identifier

    from lowtide.quads import Quads, ReadQuads

BATCH: Final = 50_000
"""Statements of one transaction, unless the user says otherwise."""
DEFAULT_GRAPH: Final = "default"
"""The default graph, where the user names a graph to dump."""
_LINES: Final = ("nt", "nquads")
_WITH_GRAPHS: Final = ("nquads", "trig", "trix", "json-ld", "hext", "patch")
"""Formats in which a statement has a graph."""
_NOTED: Final = 10_000
"""Statements between two updates of the progress bar."""
_GZIP: Final = b"\x1f\x8b"

RdfFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="turtle, nt, nquads, trig, xml, json-ld, n3, trix or another format of rdflib; by default what the name "
        "of the file says.",
        show_default=False,
    ),
]


def load(
    path: StorePath,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="The files, or - for standard input.", show_default=False)
    ],
    quads: QuadsName = DEFAULT_QUADS,
    format: RdfFormat = None,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            metavar="IRI",
            help="The graph for statements that have none in the file; by default the default graph.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="IRI",
            help="What relative IRIs are resolved against; by default the file itself.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", metavar="NUMBER", min=1, help="Statements per transaction.")] = BATCH,
    one_transaction: Annotated[
        bool,
        typer.Option(
            "--one-transaction", help="Load everything or nothing; it is held in memory until it is committed."
        ),
    ] = False,
    create: Annotated[bool, typer.Option("--create", help="Create the store if there is none.")] = False,
    json: Json = False,
) -> None:
    """Load RDF files into a quad store. A file may be compressed by gzip.

    Statements are committed in batches, so that memory stays flat. If the load fails or is killed, the batches before
    that are in. Loading again adds nothing twice but statements with blank nodes, which get new names each time.
    --one-transaction loads everything or nothing.
    """
    require_rdf()
    output, target = Output(json), graph_of(graph)
    formats = [_format(file, format) for file in files]
    store = _store_for(path, create)
    done = _FileLoad(quads, target, base, batch)
    try:
        with lowtide.open(store) if not store.exists() else writing(store) as opened:
            done.run(opened, list(zip(files, formats, strict=True)), whole=one_transaction)
    except KeyboardInterrupt:
        if done.commits:
            typer.echo(f"lowtide: interrupted\n{done.so_far()}", err=True)
        raise
    several = "" if one_transaction else f", in {_counted(done.commits, 'transaction')}"
    output.answer(
        {"path": store, "quads": quads, "files": files, "loaded": done.count, "commits": done.commits},
        f"loaded {_counted(done.count)} into {quads}{several}",
    )


def _store_for(path: Path, create: bool) -> Path:
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        return find_store(path)
    if not create:
        raise UsageError(f"there is no store in {path.absolute()}; use --create to create it")
    return path.absolute()


def _format(file: str, given: str | None) -> str:
    """The format of a file, as rdflib names it, which must know it."""
    import rdflib.plugin
    from rdflib.parser import Parser

    from lowtide.quads.parsing import format_of

    if file == STANDARD and given is None:
        raise UsageError("standard input has no name that tells its format; set --format, for example to turtle")
    return _known(format_of(file, given), {each.name for each in rdflib.plugin.plugins(None, Parser)})


def _known(name: str, names: set[str]) -> str:
    if name not in names:
        known = sorted(each for each in names if "/" not in each and not each.startswith("ox-"))
        raise UsageError(f"rdflib has no format {name!r}; it has {', '.join(known)}")
    return name


class _FileLoad:
    """The statements of files on their way into a quad store."""

    def __init__(self, name: str, graph: Identifier | None, base: str | None, batch: int) -> None:
        self._name = name
        self._graph = graph
        self._base = base
        self._batch = batch
        self.count = 0
        """How many statements were committed."""
        self.commits = 0

    def run(self, store: lowtide.Store, files: list[tuple[str, str]], *, whole: bool) -> None:
        """Load the files; ``count`` and ``commits`` tell how far it came, whatever happens."""
        if whole:
            with store.transaction() as tx:
                target = tx.quads(self._name)
                count = sum(self._read(file, format, target, abs) for file, format in files)
            self.count, self.commits = count, 1
            return
        target = store.quads(self._name)
        try:
            for file, format in files:
                self._read(file, format, target, self._committed)
        except (Error, LmdbError) as error:
            if not self.commits:
                raise
            raise Error(f"{error}\n{self.so_far()}") from error

    def _committed(self, count: int) -> None:
        self.count += count
        self.commits += 1

    def _read(self, file: str, format: str, target: Quads, added: Callable[[int], object]) -> int:
        """Read a file, and add its statements in batches; returns how many there were."""
        from lowtide.quads.loading import load

        base = self._base
        if base is None and file != STANDARD:
            base = Path(file).absolute().as_uri()
        with reading_from(file) as source, measured(f"loading {source.name}", source.size) as advance:
            note = _noting(source, advance)

            def loaded(count: int) -> None:
                added(count)
                note(count)

            with _explained(source.name, format), _unpacked(source) as stream:
                return load(
                    target, stream, format=format, base=base, graph=self._graph, batch=self._batch, loaded=loaded
                )

    def so_far(self) -> str:
        """What is in, in words."""
        return (
            f"{_counted(self.count)} before that are in {self._name}, committed in "
            f"{_counted(self.commits, 'transaction')}; what follows is not. To go on, load again: what is there is not "
            "added twice, but for statements with blank nodes"
        )


def _noting(source: FileSource, advance: Advance) -> Callable[[int], None]:
    total = 0

    def note(count: int) -> None:
        nonlocal total
        total += count
        advance(source.done(), f"{total:,} statements")

    return note


@contextlib.contextmanager
def _unpacked(source: FileSource) -> Iterator[BinaryIO]:
    """The bytes of a file, also of one that gzip has compressed and whose name does not tell."""
    stream = source.stream if hasattr(source.stream, "peek") else io.BufferedReader(cast(Any, source.stream))
    if cast(Any, stream).peek(2)[:2] != _GZIP:
        yield stream
        return
    with gzip.GzipFile(fileobj=stream, mode="rb") as unpacked:
        yield cast(BinaryIO, unpacked)


@contextlib.contextmanager
def _explained(name: str, format: str) -> Iterator[None]:
    """Parsers have errors of many kinds, none of them ours: let them name the file."""
    try:
        yield
    except (Error, LmdbError, MemoryError):
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise Error(f"{name}: {error}") from error
    except Exception as error:
        raise Error(f"{name} cannot be read as {format}: {error or type(error).__name__}") from error


def dump(
    path: StorePath,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file, or - for standard output.", show_default=False)
    ] = STANDARD,
    quads: QuadsName = DEFAULT_QUADS,
    format: RdfFormat = None,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            metavar="IRI",
            help=f"Only this graph, or {DEFAULT_GRAPH} for the default graph; by default all.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write the statements of one snapshot to a file, which is replaced when the new one is whole.

    nt and nquads are written as they are read. Other formats are put together in memory, by rdflib. Standard output is
    nquads unless --format says otherwise.
    """
    require_rdf()
    output, name = Output(json), _written(file, format)
    with looking_at_quads(path, quads) as found, measured(f"dumping {quads}", None) as advance:
        pattern = _pattern(found, name, graph)

        def statements() -> Iterator[tuple[Any, Any, Any, Any]]:
            for number, each in enumerate(found.match(pattern), 1):
                if number % _NOTED == 0:
                    advance(number, f"{number:,} statements")
                yield each

        with writing_to(file) as stream:
            if name in _LINES:
                count = _write_lines(stream, statements(), with_graphs=name == "nquads")
            else:
                count = _write_whole(stream, found, statements(), name)
    if file == STANDARD:
        return
    output.answer(
        {"path": find_store(path), "quads": quads, "file": file, "dumped": count},
        f"dumped {_counted(count)} of {quads} to {file}",
    )


def _written(file: str, given: str | None) -> str:
    import rdflib.plugin
    from rdflib.serializer import Serializer

    from lowtide.quads.parsing import format_of

    if file == STANDARD and given is None:
        return "nquads"
    return _known(format_of(file, given), {each.name for each in rdflib.plugin.plugins(None, Serializer)})


def _pattern(quads: ReadQuads, format: str, graph: str | None) -> tuple[Any, ...]:
    """The statements to write. A format without graphs takes one graph."""
    from lowtide.quads import DEFAULT

    if graph is not None:
        return (None, None, None, DEFAULT if graph == DEFAULT_GRAPH else graph_of(graph))
    if format not in _WITH_GRAPHS and (first := next(quads.graphs(), None)) is not None:
        raise UsageError(
            f"{format} has no graphs, and {quads.name} has some, such as {first}; choose one with --graph IRI or "
            f"--graph {DEFAULT_GRAPH}, or write nquads, trig or json-ld"
        )
    return (None, None, None)


def _write_lines(stream: BinaryIO, statements: Iterator[tuple[Any, Any, Any, Any]], *, with_graphs: bool) -> int:
    from lowtide.quads.text import quad_line

    count = 0
    for s, p, o, g in statements:
        stream.write(f"{quad_line(s, p, o, g if with_graphs else None)}\n".encode())
        count += 1
    return count


def _write_whole(
    stream: BinaryIO, quads: ReadQuads, statements: Iterator[tuple[Any, Any, Any, Any]], format: str
) -> int:
    """Write a format that rdflib makes of everything at once."""
    from rdflib import Dataset, Graph
    from rdflib.graph import DATASET_DEFAULT_GRAPH_ID

    count = 0
    target: Graph = Dataset() if format in _WITH_GRAPHS else Graph()
    for prefix, namespace in quads.prefixes.items():
        target.bind(prefix, namespace)
    is_plain = not isinstance(target, Dataset)
    for s, p, o, g in statements:
        if is_plain:
            target.add((s, p, o))
        else:
            cast(Dataset, target).add((s, p, o, DATASET_DEFAULT_GRAPH_ID if g is None else g))  # type: ignore[arg-type]
        count += 1
    target.serialize(cast(Any, stream), format=format, encoding="utf-8")
    return count


def _counted(number: int, what: str = "statement") -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
