"""Each mutant of the read path is listed as convicted by the audit of its own recording, or as acquitted with a reason.
test_mutants runs these audits."""

from __future__ import annotations

from tests.mutants.catalog import LAYERS, MUTANTS
from tests.mutants.recordings import ACQUITTED, CONVICTED

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def test_each_mutant_of_the_layers_that_reads_go_through_is_convicted_or_it_is_said_why_not() -> None:
    layers = ("commit", "versions", "garbage", "checkpoint")
    concerned = {mutant.name for layer in layers for mutant in LAYERS[layer]}
    assert concerned <= CONVICTED.keys() | ACQUITTED.keys()
    assert not CONVICTED.keys() & ACQUITTED.keys()
    assert CONVICTED.keys() | ACQUITTED.keys() <= BY_NAME.keys()
