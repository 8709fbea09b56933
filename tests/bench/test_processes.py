"""The section about processes: real processes measure each store, and the targets follow from the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.processes import COUNTS, SECTION, STORES, WORKLOADS, Scale, measure
from bench.section import Data


@pytest.mark.parametrize(("store", "workload"), [("lowtide", "web"), ("sqlite3", "mix"), ("py-lmdb", "rmw-unsynced")])
def test_two_processes_are_measured_together(tmp_path: Path, store: str, workload: str) -> None:
    found = measure(store, tmp_path / "store", workload, 2, Scale(50, 0.02, 1))
    assert found["rate"] > 0
    assert 0 < found["p50"] <= found["p99"]
    assert found["errors"] == 0
    assert (found["p50 joined"] > 0) is (store == "lowtide")


def made(rate: float, joined: float = 1e-4, **special: float) -> Data:
    """Figures that are all alike but for some rates, by store, workload and number of processes."""
    cells = {}
    for store in STORES:
        for workload in WORKLOADS:
            for count in COUNTS:
                name = f"{store} {workload} {count}"
                told = special.get(name.replace(" ", "_").replace("-", "_"), rate)
                figures = {"rate": told, "p50": 1e-4, "p50 joined": joined, "p99": 1e-3, "errors": 0, "retries": 0}
                cells[name] = [figures]
    return {"stores": list(STORES), "cells": cells}


def test_the_targets_are_ratios_of_what_was_measured() -> None:
    missed = [finding.met for finding in SECTION.findings(made(100))]
    assert missed == [False, False, False, True, True]
    met = SECTION.findings(made(100, lowtide_read_2=190, lowtide_rmw_synced_4=200))
    assert all(finding.met for finding in met)
    assert met[0].measured == "1.90 times (sqlite3 1.00, py-lmdb 1.00)"
    slow = [finding.met for finding in SECTION.findings(made(100, joined=2e-4))]
    assert slow == [False, False, False, False, True], "the owner's own commits do not count"
    assert len(SECTION.grids(made(100))) == len(WORKLOADS)
