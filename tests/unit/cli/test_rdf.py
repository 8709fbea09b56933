"""``lowtide rdf``: files into quad stores and out of them, and SPARQL."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
from pathlib import Path

import pytest
from rdflib import Dataset, Graph, Literal, URIRef
from rdflib.compare import isomorphic

import lowtide
from tests.crash.stores import wait_until
from tests.support.patience import PATIENCE
from tests.unit.cli.commands import command, document, environment, invoke

PEOPLE = """\
@prefix ex: <http://example.org/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
ex:ann a foaf:Person ; foaf:name "Ann" ; foaf:age 42 ; foaf:knows ex:bob .
ex:bob a foaf:Person ; foaf:name "Bob"@en ; foaf:knows [ foaf:name "a\\n\\"nobody\\"" ] .
"""
NAMES = "PREFIX foaf: <http://xmlns.com/foaf/0.1/> SELECT ?name WHERE { ?who a foaf:Person ; foaf:name ?name }"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A file of eight statements."""
    file = tmp_path / "people.ttl"
    file.write_text(PEOPLE)
    return file


@pytest.fixture
def store(tmp_path: Path, people: Path) -> Path:
    """A store that has them in its default quad store."""
    assert invoke("rdf", "load", tmp_path / "store", people, "--create").exit_code == 0
    return tmp_path / "store"


def graph_in(file: Path, format: str | None = None) -> Graph:
    return Graph().parse(str(file), format=format)


def many(path: Path, count: int) -> Path:
    path.write_text("".join(f"<urn:s{n // 7}> <urn:p{n % 7}> {n} .\n" for n in range(count)))
    return path


@pytest.mark.parametrize("format", ["turtle", "nt", "nquads", "trig", "xml", "pretty-xml", "json-ld", "n3", "trix"])
def test_what_is_dumped_and_loaded_again_is_the_same(format: str, store: Path, people: Path, tmp_path: Path) -> None:
    file = tmp_path / "dump.rdf.gz"
    result = invoke("rdf", "dump", store, file, "--format", format, "--json")
    assert result.exit_code == 0, result.output
    assert document(result) == {"path": str(store), "quads": "default", "file": str(file), "dumped": 8}
    read_as = format.removeprefix("pretty-")
    result = invoke("rdf", "load", store, file, "--format", read_as, "--quads", "copy", "--json")
    assert result.exit_code == 0, result.output
    assert document(result)["loaded"] == 8
    again = tmp_path / "again.nt"
    assert invoke("rdf", "dump", store, again, "-q", "copy").exit_code == 0
    assert isomorphic(graph_in(again), graph_in(people))


@pytest.mark.parametrize("format", ["nquads", "trig", "json-ld", "trix"])
def test_graphs_are_kept_by_the_formats_that_have_them(format: str, store: Path, people: Path, tmp_path: Path) -> None:
    assert invoke("rdf", "load", store, people, "--graph", "http://example.org/g").exit_code == 0
    file = tmp_path / "dump"
    assert invoke("rdf", "dump", store, file, "--format", format).exit_code == 0
    found = Dataset()
    found.parse(str(file), format=format)
    named = found.graph(URIRef("http://example.org/g"))
    assert len(named) == len(found.default_graph) == 8
    assert isomorphic(named, graph_in(people))


def test_a_format_without_graphs_takes_one_of_them(store: Path, people: Path, tmp_path: Path) -> None:
    assert invoke("rdf", "load", store, people, "--graph", "urn:g").exit_code == 0
    result = invoke("rdf", "dump", store, tmp_path / "all.ttl")
    assert result.exit_code == 2
    assert "turtle has no graphs, and default has some, such as urn:g; choose one with --graph IRI" in result.stderr
    for graph in ("urn:g", "<urn:g>", "default"):
        assert invoke("rdf", "dump", store, tmp_path / "one.ttl", "--graph", graph).exit_code == 0
        assert isomorphic(graph_in(tmp_path / "one.ttl"), graph_in(people))


def test_standard_input_and_output_carry_them_too(store: Path, people: Path) -> None:
    out = invoke("rdf", "dump", store).stdout
    assert len(out.splitlines()) == 8
    assert all(line.endswith(" .") for line in out.splitlines())
    for given in (out.encode(), gzip.compress(out.encode())):
        result = invoke("rdf", "load", store, "-", "--format", "nt", "-q", "copy", input=given)
        assert result.exit_code == 0, result.output
        assert result.stdout == "loaded 8 statements into copy, in 1 transaction\n"
    result = invoke("rdf", "load", store, "-", input=out)
    assert result.exit_code == 2
    assert "set --format" in result.stderr


def test_relative_iris_are_those_of_the_file_or_of_base(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.ttl"
    file.write_text("<#a> <p> <> .")
    assert invoke("rdf", "load", store, file, "-q", "own").exit_code == 0
    assert invoke("rdf", "load", store, file, "-q", "other", "--base", "http://e.org/x/y").exit_code == 0
    own = file.as_uri()
    assert invoke("rdf", "dump", store, "-q", "own").stdout == f"<{own}#a> <{own.removesuffix('a.ttl')}p> <{own}> .\n"
    assert (
        invoke("rdf", "dump", store, "-q", "other").stdout
        == "<http://e.org/x/y#a> <http://e.org/x/p> <http://e.org/x/y> .\n"
    )


def test_a_load_is_many_transactions_or_one(store: Path, tmp_path: Path) -> None:
    file = many(tmp_path / "many.ttl", 1000)
    result = document(invoke("rdf", "load", store, file, "-q", "a", "--batch", 300, "--json"))
    assert (result["loaded"], result["commits"]) == (1000, 4)
    result = document(invoke("rdf", "load", store, file, file, "-q", "b", "--one-transaction", "--json"))
    assert (result["loaded"], result["commits"]) == (2000, 1)
    with lowtide.open(store, read_only=True) as opened:
        assert opened.quads("a").count() == opened.quads("b").count() == 1000
        before = opened.stats().last_commit
    assert invoke("rdf", "load", store, file, "-q", "a").exit_code == 0
    with lowtide.open(store, read_only=True) as opened:
        assert opened.quads("a").count() == 1000
        assert opened.stats().last_commit == before + 1


def test_a_bad_line_leaves_what_came_before_or_nothing(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.nt"
    file.write_text("".join(f'<urn:s> <urn:p> "{n}" .\n' for n in range(1000)) + "nonsense\n")
    result = invoke("rdf", "load", store, file, "-q", "whole", "--one-transaction")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"lowtide: {file} cannot be read as nt: ")
    assert "1001" in result.stderr
    result = invoke("rdf", "load", store, file, "-q", "parts", "--batch", 300)
    assert result.exit_code == 1
    assert "900 statements before that are in parts, committed in 3 transactions; what follows is not" in result.stderr
    with lowtide.open(store, read_only=True) as opened:
        assert opened.quads("whole").count() == 0
        assert opened.quads("parts").count() == 900
        assert opened.list_quads() == ["default", "parts"]


def test_a_load_that_is_killed_leaves_whole_batches(tmp_path: Path) -> None:
    store, file = tmp_path / "store", many(tmp_path / "many.ttl", 30_000)
    loading = subprocess.Popen(
        command("rdf", "load", store, file, "--create", "--batch", 1000), env=environment(), stdout=subprocess.DEVNULL
    )
    wait_until(lambda: sum(each.stat().st_size for each in (store / "log").glob("*.log")) > 1 << 18)
    loading.send_signal(signal.SIGKILL)
    loading.wait(PATIENCE)
    with lowtide.open(store) as opened:
        count = opened.quads("default").count()
        assert count % 1000 == 0
        assert opened.verify().ok
    assert invoke("rdf", "load", store, file).exit_code == 0
    with lowtide.open(store, read_only=True) as opened:
        assert opened.quads("default").count() == 30_000


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["load", "nowhere", "people.ttl"], 2, "use --create"),
        (["load", "store", "people.xyz"], 2, "the format of people.xyz is not known"),
        (["load", "store", "people.ttl", "--format", "jpeg"], 2, "rdflib has no format 'jpeg'; it has "),
        (["load", "store", "missing.ttl"], 1, "missing.ttl: No such file"),
        (["load", "store", "people.ttl", "--graph", "a b"], 2, "'a b' is not the IRI of a graph"),
        (["load", "store", "people.ttl", "--format", "xml"], 1, "people.ttl cannot be read as xml"),
        (["dump", "store", "-q", "none"], 2, "has no quad store 'none'; its quad stores are 'default'"),
        (["dump", "store", "a.xyz"], 2, "the format of a.xyz is not known"),
        (["query", "store", "SELECT ?a {?a foo:b ?c}"], 2, "Unknown namespace prefix : foo"),
        (["query", "store", "SELEC"], 2, "line 1, column 1: Expected"),
        (
            ["query", "store", "ASK {}", "--format", "csv"],
            2,
            "the format of this result is table, json, xml, not 'csv'",
        ),
        (
            ["query", "store", "SELECT * {?a ?b ?c}", "--format", "turtle"],
            2,
            "table, json, csv, tsv, xml, not 'turtle'",
        ),
        (["query", "store", "ASK {}", "--format", "xml", "--json"], 2, "--json is a format"),
        (["query", "store", "@missing.rq"], 1, "missing.rq: No such file"),
        (["update", "store", "DELETE"], 2, "the SPARQL cannot be parsed: line 1"),
        (["explain", "store", "SELECT"], 2, "the SPARQL cannot be parsed: line 1"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], code: int, words: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    result = invoke("rdf", *arguments)
    assert result.exit_code == code, result.output
    assert words in result.stderr
    assert result.stdout == ""


def test_solutions_come_in_every_format(store: Path) -> None:
    query = f"{NAMES} ORDER BY ?name"
    assert invoke("rdf", "query", store, query).stdout == "name\nAnn\nBob\n"
    assert invoke("rdf", "query", store, query, "--format", "csv").stdout.split() == ["name", "Ann", "Bob"]
    assert invoke("rdf", "query", store, query, "--format", "tsv").stdout == '?name\n"Ann"\n"Bob"@en\n'
    assert "<literal>Ann</literal>" in invoke("rdf", "query", store, query, "--format", "xml").stdout
    for more in (["--json"], ["--format", "json"]):
        found = json.loads(invoke("rdf", "query", store, query, *more).stdout)
        assert [each["name"]["value"] for each in found["results"]["bindings"]] == ["Ann", "Bob"]
    assert invoke("rdf", "query", store, "SELECT ?a WHERE { ?a <urn:none> ?b }").stdout == "no solutions\n"


def test_questions_and_graphs_have_forms_of_their_own(store: Path) -> None:
    ask = "ASK { ?who <http://xmlns.com/foaf/0.1/age> 42 }"
    assert invoke("rdf", "query", store, ask).stdout == "yes\n"
    assert invoke("rdf", "query", store, ask.replace("42", "43")).stdout == "no\n"
    assert json.loads(invoke("rdf", "query", store, ask, "--json").stdout)["boolean"] is True
    construct = "CONSTRUCT { ?a <urn:age> ?c } WHERE { ?a <http://xmlns.com/foaf/0.1/age> ?c }"
    wanted = (URIRef("http://example.org/ann"), URIRef("urn:age"), Literal(42))
    for more, format in (([], "turtle"), (["--format", "nt"], "nt"), (["--json"], "json-ld")):
        result = invoke("rdf", "query", store, construct, *more)
        assert list(Graph().parse(data=result.stdout, format=format)) == [wanted]
    assert "Ann" in invoke("rdf", "query", store, "DESCRIBE <http://example.org/ann>").stdout


def test_a_query_comes_from_a_file_or_from_standard_input(store: Path, tmp_path: Path) -> None:
    (tmp_path / "names.rq").write_text(NAMES)
    found = invoke("rdf", "query", store, NAMES).stdout
    assert invoke("rdf", "query", store, f"@{tmp_path / 'names.rq'}").stdout == found
    assert invoke("rdf", "query", store, "-", input=NAMES).stdout == found


def test_the_default_graph_is_the_union_of_all_if_asked_for(store: Path, people: Path) -> None:
    assert invoke("rdf", "load", store, people, "--graph", "urn:g", "-q", "named").exit_code == 0
    assert invoke("rdf", "query", store, NAMES, "-q", "named").stdout == "no solutions\n"
    assert invoke("rdf", "query", store, NAMES, "-q", "named", "--union").stdout.count("\n") == 3


def test_prefixes_of_the_store_need_not_be_declared(store: Path) -> None:
    with lowtide.open(store) as opened:
        opened.quads("default").prefixes.bind("f", "http://xmlns.com/foaf/0.1/")
    assert invoke("rdf", "query", store, "SELECT ?a { ?s f:age ?a }").stdout == "a\n42\n"
    assert "@prefix f:" in invoke("rdf", "dump", store, "--format", "turtle").stdout


def test_a_query_is_cancelled_by_its_time_limit(store: Path, tmp_path: Path) -> None:
    assert invoke("rdf", "load", store, many(tmp_path / "many.ttl", 600), "-q", "many").exit_code == 0
    query = 'SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f FILTER(REGEX(CONCAT(STR(?a), STR(?f)), "x.*y")) }'
    result = invoke("rdf", "query", store, query, "-q", "many", "--timeout", "0.05")
    assert result.exit_code == 1, result.stderr
    assert "the query was cancelled after its time limit of 0.05 seconds" in result.stderr


def test_an_update_is_one_transaction(store: Path) -> None:
    update = (
        "INSERT DATA { <urn:a> <urn:b> 1 } ; DELETE { ?s ?p ?o } INSERT { ?s ?p 43 } WHERE { ?s ?p ?o FILTER(?o = 42) }"
    )
    with lowtide.open(store, read_only=True) as opened:
        before = opened.stats().last_commit
    assert document(invoke("rdf", "update", store, update, "--json")) == {
        "path": str(store),
        "quads": "default",
        "inserted": 2,
        "deleted": 1,
    }
    with lowtide.open(store, read_only=True) as opened:
        assert opened.stats().last_commit == before + 1
        assert opened.quads("default").count((None, None, Literal(43))) == 1
    assert invoke("rdf", "update", store, "DELETE WHERE { <urn:a> ?b ?c }").stdout == "0 inserted, 1 deleted\n"


def test_explain_tells_the_order_of_the_joins(store: Path) -> None:
    out = invoke("rdf", "explain", store, NAMES).stdout
    assert "BGP  (rows 2)" in out
    assert "estimated 2" in out
    (plan,) = document(invoke("rdf", "explain", store, NAMES, "--json"))
    assert plan["name"] == "Project"
    steps = plan["steps"][0]["steps"]
    assert [each["rows"] for each in steps] == [2, 2]


def test_memory_stays_flat_however_large_the_file(tmp_path: Path) -> None:
    """Twice the file must not take much more: what is read, parsed and committed is let go of."""
    peaks = []
    for count in (20_000, 80_000):
        file = many(tmp_path / f"{count}.ttl", count)
        code = (
            "import resource, sys; from lowtide.cli import main; sys.argv = ['lowtide', *sys.argv[1:]]\n"
            "try: main()\n"
            "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run(
            [
                command()[0],
                "-c",
                code,
                "rdf",
                "load",
                str(tmp_path / f"s{count}"),
                str(file),
                "--create",
                "--batch",
                "2000",
            ],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        peaks.append(int(done.stdout.split()[-1]))
    assert peaks[1] < peaks[0] * 1.6, peaks
