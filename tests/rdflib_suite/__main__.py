"""``python -m tests.rdflib_suite CHECKOUT [ARGUMENTS OF PYTEST]``: rdflib's tests on Memory and on Lowtide.

CHECKOUT is a directory with rdflib's sources, of the version that is installed. It runs the tests of stores, graphs,
datasets, namespaces, transactions and SPARQL, and W3C's tests of SPARQL 1.0 and 1.1, which takes a minute or two per
store. The differences between the two stores are listed. The status is 1 if a test passes only on Memory and is not
a known difference, or if a run does not end in time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from tests.rdflib_suite.known import KNOWN
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
SECONDS, SECONDS_OF_TEST = 900, 60
"""Of all tests on one store, and of each, where pytest-timeout is installed."""


def outcomes_on(store: str, checkout: Path, arguments: list[str]) -> dict[str, str]:
    """Run the tests on one store; what became of each."""
    with tempfile.TemporaryDirectory() as directory:
        kept = Path(directory) / "outcomes.json"
        path = f"{checkout}:{ROOT / 'src'}:{ROOT}"
        environment = {**os.environ, STORE: store, OUTCOMES: str(kept), "PYTHONPATH": path}
        command = [sys.executable, "-m", "pytest", "-p", "tests.rdflib_suite.substitute", "-q", "--no-header"]
        chosen = [] if any((checkout / each.partition("::")[0]).exists() for each in arguments) else list(CHOSEN)
        options = ["-m", "not webtest and not testcontainer", "-o", "addopts=", "-p", "no:cacheprovider", "--tb=short"]
        if find_spec("pytest_timeout") is not None:
            options.append(f"--timeout={SECONDS_OF_TEST}")
        command += [*options, *chosen, *arguments]
        try:
            subprocess.run(command, cwd=checkout, env=environment, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            sys.exit(f"the tests on {store} were not over after {SECONDS} s")
        if not kept.exists():
            sys.exit(f"the tests on {store} did not run to their end, see above")
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
    unknown = {test: pair for test, pair in worse.items() if test not in KNOWN}
    known = {test: pair for test, pair in worse.items() if test in KNOWN}
    listed = ("passes on Lowtide alone", better), ("known to pass on Memory alone", known)
    for title, chosen in (*listed, ("PASSES ON MEMORY ALONE", unknown)):
        for test, (on_memory, on_lowtide) in sorted(chosen.items()):
            print(f"{title}: {test} (Memory: {on_memory}, Lowtide: {on_lowtide}) {KNOWN.get(test, '')}".rstrip())
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
