"""rdflib's graphs on a Lowtide store: ``rdflib.Graph("lowtide")``, with transactions.

rdflib finds the plugin automatically once Lowtide is installed; importing this module registers it too. ``Graph`` and
``Dataset`` are rdflib's own classes, with the transaction methods declared for type checkers.
"""

import rdflib.plugin
import rdflib.store

from lowtide.rdf.graphs import Dataset, Graph
from lowtide.rdf.methods import install, transaction
from lowtide.rdf.store import LowtideStore

__all__ = ["Dataset", "Graph", "LowtideStore", "transaction"]

rdflib.plugin.register("lowtide", rdflib.store.Store, "lowtide.rdf", "LowtideStore")
install()
