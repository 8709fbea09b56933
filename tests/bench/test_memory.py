from __future__ import annotations

from pathlib import Path

from bench import memory
from tests.bench.support import check_shown, make_plan


def test_each_state_has_the_versions_that_it_says(tmp_path: Path) -> None:
    keys = 1_000
    data = memory.measure(make_plan(tmp_path), memory.Scale(keys, 1))
    held = {sample["state"]: (sample["versions"], sample["history"]) for sample in data["samples"]}
    assert held == {
        memory.EMPTY: (0, 0),
        "loaded, at rest": (0, 0),
        "every key read, in a cache that holds all": (0, 0),
        "every key read, in a cache of 1,000 rows": (0, 0),
        "every key updated once, no checkpoint yet": (keys, 0),
        "every key updated 5 times, no checkpoint yet": (keys, 0),
        "the same beside two readers": (2 * keys, 0),
        "updated 5 times beside a reader, checkpointed": (0, keys),
    }
    assert all(sample["own"] > 0 and sample["mapped"] > 0 for sample in data["samples"])
    check_shown(memory.SECTION, data, tmp_path)


def test_memory_that_stays_at_rest_is_found() -> None:
    samples = [
        {"state": state, "round": 0, "own": 50_000_000, "mapped": 1, "versions": 0, "history": 0}
        for state in memory.STATES
    ]
    data = {"keys": 1_000, "payload_bytes": 167, "samples": samples}
    assert all(finding.met for finding in memory.SECTION.findings(data))
    samples[1]["own"] = 50_000_000 + 9 * 1_000
    assert [finding.met for finding in memory.SECTION.findings(data)].count(False) == 1
