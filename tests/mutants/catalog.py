"""All mutants, by the layer that they break."""

from __future__ import annotations

from tests.mutants import checkpoint, commit, documents, feed, garbage, loading, log, pins, recovery, spark, versions
from tests.mutants.mutant import Mutant

LAYERS: dict[str, list[Mutant]] = {
    "commit": commit.MUTANTS,
    "versions": versions.MUTANTS,
    "garbage": garbage.MUTANTS,
    "checkpoint": checkpoint.MUTANTS,
    "recovery": recovery.MUTANTS,
    "log": log.MUTANTS,
    "pins": pins.MUTANTS,
    "feed": feed.MUTANTS,
    "documents": documents.MUTANTS,
    "loading": loading.MUTANTS,
    "spark": spark.MUTANTS,
}

MUTANTS: list[Mutant] = [mutant for mutants in LAYERS.values() for mutant in mutants]
