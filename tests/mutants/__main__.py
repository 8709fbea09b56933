"""``python -m tests.mutants``: tries every mutant, and prints what each breaks and which tests convict it."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from tests.mutants.catalog import LAYERS
from tests.mutants.mutant import Mutant, Trial, try_mutant


def main() -> int:
    """Exit code 1 if one goes unpunished."""
    console = Console()
    tried: list[tuple[str, Mutant, Trial]] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        chosen = [(layer, mutant) for layer, mutants in LAYERS.items() for mutant in mutants]
        for (layer, mutant), trial in zip(chosen, pool.map(lambda each: try_mutant(each[1]), chosen), strict=True):
            tried.append((layer, mutant, trial))
            if console.is_terminal:
                console.print(f"{len(tried)}/{len(chosen)} {mutant.name}")
    table = Table("layer", "mutant", "what it breaks", "convicted by", "seconds")
    for layer, mutant, trial in tried:
        names = [node.removeprefix("tests/").replace("::test_", "\n") for node in mutant.convicted_by]
        acquitted = trial.acquits(mutant)
        verdict = "\n".join(names) if not acquitted else "NOT CONVICTED by " + ", ".join(acquitted)
        table.add_row(layer, mutant.name, mutant.breaks, verdict, f"{trial.seconds:.1f}")
    console.print(table)
    free = [mutant.name for _, mutant, trial in tried if trial.acquits(mutant)]
    console.print(f"{len(tried) - len(free)} of {len(tried)} mutants are convicted")
    return 1 if free else 0


if __name__ == "__main__":
    sys.exit(main())
