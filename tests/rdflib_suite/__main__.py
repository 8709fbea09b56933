"""``python -m tests.rdflib_suite CHECKOUT [ARGUMENTS OF PYTEST]``: rdflib's tests on Memory and on Lowtide.

CHECKOUT is a directory with rdflib's sources, of the version that is installed. The tests of stores, graphs, datasets,
namespaces, transactions and SPARQL are run, with W3C's for SPARQL 1.0 and 1.1. What differs between the two stores is
listed. The status is 1 if a test passes on Memory alone that is not among the known differences.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.rdflib_suite.substitute import OUTCOMES, STORE

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = (
    "test/test_store",
    "test/test_graph",
    "test/test_conjunctivegraph",
    "test/test_dataset",
    "test/test_namespace",
    "test/test_sparql",
    "test/test_issues",
    "test/test_misc",
    "test/test_path.py",
    "test/test_having.py",
    "test/test_trig.py",
    "test/test_n3.py",
    "test/test_skolem_genid.py",
    "test/test_w3c_spec/test_sparql10_w3c.py",
    "test/test_w3c_spec/test_sparql11_w3c.py",
    "test/test_w3c_spec/test_sparql_rdflib.py",
)
GOOD = ("passed", "xpassed")


def outcomes_on(store: str, checkout: Path, arguments: list[str]) -> dict[str, str]:
    """Run the tests on one store; what became of each."""
    with tempfile.TemporaryDirectory() as directory:
        kept = Path(directory) / "outcomes.json"
        environment = {**os.environ, STORE: store, OUTCOMES: str(kept), "PYTHONPATH": f"{checkout}:{ROOT}"}
        command = [sys.executable, "-m", "pytest", "-p", "tests.rdflib_suite.substitute", "-q", "--no-header"]
        chosen = [] if any((checkout / each.partition("::")[0]).exists() for each in arguments) else list(CHOSEN)
        options = ["-m", "not webtest and not testcontainer", "-o", "addopts=", "-p", "no:cacheprovider", "--tb=short"]
        subprocess.run([*command, *options, *chosen, *arguments], cwd=checkout, env=environment, check=False)
        return dict(json.loads(kept.read_text()))


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    checkout = Path(arguments[0]).resolve()
    memory, own = (outcomes_on(store, checkout, arguments[1:]) for store in ("memory", "lowtide"))
    for store, found in (("Memory", memory), ("Lowtide", own)):
        print(f"{store}: {', '.join(f'{n} {what}' for what, n in sorted(Counter(found.values()).items()))}")
    differences = {test: (memory.get(test), own.get(test)) for test in {**memory, **own}}
    worse = {test: pair for test, pair in differences.items() if pair[0] in GOOD and pair[1] not in GOOD}
    better = {test: pair for test, pair in differences.items() if pair[1] in GOOD and pair[0] not in GOOD}
    for title, chosen in (("passes on Lowtide alone", better), ("passes on Memory alone", worse)):
        for test, (on_memory, on_lowtide) in sorted(chosen.items()):
            print(f"{title}: {test} (Memory: {on_memory}, Lowtide: {on_lowtide})")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
