"""Every deliberately broken engine is convicted by the tests that its mutant names."""

from __future__ import annotations

import re

import pytest

from tests.mutants.catalog import LAYERS, MUTANTS
from tests.mutants.mutant import PROJECT, SOURCES, DoesNotFit, Mutant, is_of, patched, try_mutant
from tests.mutants.recordings import CONVICTED, STORIES


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_mutant_is_convicted(mutant: Mutant) -> None:
    """One that breaks isolation is convicted by the audit of what it recorded itself as well."""
    story, anomaly = CONVICTED.get(mutant.name, (None, ""))
    recorded = (f"{STORIES}::{story}",) if story else ()
    trial = try_mutant(mutant, also=recorded)
    assert trial.acquits(mutant) == [], f"{mutant.breaks}\npassed: {trial.passed}\nfailed: {trial.failed}"
    for node in recorded:
        told = [words for failed, words in trial.failed.items() if is_of(failed, node)]
        assert any("convicted of" in words and anomaly in words for words in told), trial


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_patch_of_the_mutant_fits(mutant: Mutant) -> None:
    source = (SOURCES / "lowtide" / mutant.file).read_text()
    assert patched(source, mutant) != source


def test_there_are_mutants_of_every_layer_and_no_two_have_one_name() -> None:
    assert all(len(mutants) >= 5 for mutants in LAYERS.values())
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_every_test_that_convicts_is_there_and_outside_this_folder() -> None:
    for mutant in MUTANTS:
        assert mutant.convicted_by
        for node in mutant.convicted_by:
            file, _, test = node.partition("::")
            assert not file.startswith("tests/mutants/")
            assert re.search(rf"^def {re.escape(test.partition('[')[0])}\(", (PROJECT / file).read_text(), re.M), node


def test_a_patch_that_no_longer_fits_says_so() -> None:
    mutant = Mutant("a fault", "Nothing.", "system/clock.py", (("what nobody wrote", ""),), ("tests",))
    with pytest.raises(DoesNotFit, match=r"the patch a fault no longer fits: system/clock\.py has its text 0 times"):
        patched((SOURCES / "lowtide" / mutant.file).read_text(), mutant)


def test_an_engine_without_a_fault_is_acquitted() -> None:
    """Else the runner itself would convict."""
    sound = Mutant("no fault", "Nothing.", "system/clock.py", (), ("tests/unit/engine/garbage/test_horizon.py",))
    trial = try_mutant(sound)
    assert trial.failed == {}
    assert trial.acquits(sound) == list(sound.convicted_by)
    assert len(trial.passed) > 5
