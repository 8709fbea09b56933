"""Lowtide alone, with graphs of growing size: the memory of a load, and the time of selective queries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep

from rdflib.plugins.sparql import prepareQuery

import lowtide
import lowtide.rdf
from bench.fresh import StepFailed, occupied
from bench.rdf.people import QUERIES, write_ntriples
from bench.section import Data

STORE = "store"
VARIANTS = 25
"""The number of persons and products that the queries ask about, so that they do not always read the same pages."""
_LOOK_SECONDS = 0.02


def peak_of_load(place: Path, triples: int) -> Data:
    """Load a file with the command line in its own process. Returns its peak memory and its speed."""
    place.mkdir()
    file = place / "graph.nt"
    write_ntriples(file, triples)
    started = perf_counter()
    command = [sys.executable, "-m", "lowtide", "rdf", "load", str(place / STORE), str(file), "--create"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            peak = max(peak, occupied(process.pid).get("RssAnon", 0))
        except FileNotFoundError:
            continue
        sleep(_LOOK_SECONDS)
    if process.returncode:
        raise StepFailed(f"{' '.join(command)} ended with status {process.returncode}")
    size = file.stat().st_size
    file.unlink()
    return {"triples": triples, "peak": peak, "rate": triples / (perf_counter() - started), "file": size}


def measure_growth(places: Mapping[int, Path], rounds: int) -> list[Data]:
    """Run the selective queries in all graphs, interleaved. Returns the median CPU time by query and size."""
    graphs = {}
    try:
        for triples, place in places.items():
            graphs[triples] = lowtide.rdf.Graph("lowtide")
            graphs[triples].open(str(place / STORE))
        asked = {
            (query.name, triples): [prepareQuery(query.about(triples, variant)) for variant in range(VARIANTS)]
            for query in QUERIES
            if query.selective
            for triples in places
        }
        samples: dict[tuple[str, int], list[float]] = {place: [] for place in asked}
        for number in range(rounds + 1):
            for (query, triples), variants in asked.items():
                graph = graphs[triples]
                started = process_time()
                for each in variants:
                    list(graph.query(each))
                if number:  # the first one warms up
                    samples[query, triples].append((process_time() - started) / VARIANTS)
    finally:
        for graph in graphs.values():
            graph.close()
    return [
        {"query": query, "triples": triples, "seconds": median(found)} for (query, triples), found in samples.items()
    ]
