"""All mutants, grouped by the layer that they break."""

from __future__ import annotations

from tests.mutants import (
    checkpoint,
    commit,
    documents,
    feed,
    garbage,
    loading,
    log,
    pins,
    processes,
    quads,
    recovery,
    replication,
    spark,
    versions,
)
from tests.mutants.mutant import Mutant

LAYERS: dict[str, list[Mutant]] = {
    "commit": commit.MUTANTS,
    "versions": versions.MUTANTS,
    "garbage": garbage.MUTANTS,
    "checkpoint": checkpoint.MUTANTS,
    "recovery": recovery.MUTANTS,
    "log": log.MUTANTS,
    "pins": pins.MUTANTS,
    "processes": processes.MUTANTS,
    "feed": feed.MUTANTS,
    "documents": documents.MUTANTS,
    "quads": quads.MUTANTS,
    "loading": loading.MUTANTS,
    "spark": spark.MUTANTS,
    "replication": replication.MUTANTS,
}

MUTANTS: list[Mutant] = [mutant for mutants in LAYERS.values() for mutant in mutants]
