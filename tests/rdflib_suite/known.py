"""The tests of rdflib 7.6 that pass on its Memory store and not on Lowtide, and why. docs/rdf.md lists them too."""

from __future__ import annotations

from typing import Final

_W3C: Final = "http://www.w3.org/2001/sw/DataAccess/tests/data-r2"
_RDFLIB: Final = "http://raw.github.com/RDFLib/rdflib/main/test/data/suites/rdflib/sparql/manifest.ttl"

KNOWN: Final[dict[str, str]] = {
    f"test/test_w3c_spec/test_sparql10_w3c.py::test_entry_sparql10[{_W3C}/reduced/manifest#reduced-1]": (
        "the check insists on duplicates, which REDUCED allows to be removed"
    ),
    f"test/test_w3c_spec/test_sparql_rdflib.py::test_entry_rdflib[{_RDFLIB}#filteroptional]": (
        "it expects the solution that OPTIONAL must keep to be dropped"
    ),
    "test/test_graph/test_aggregate_graphs.py::test_aggregate2": (
        "it expects quads((None, None, None, g)) to have quads of other graphs"
    ),
    "test/test_issues/test_issue893.py::test_issue893_ds_unpickle": "a graph on disk is not pickled",
    "test/test_namespace/test_namespace.py::TestNamespacePrefix::test_reset": (
        "it looks into private fields of the Memory store"
    ),
}
