"""Checks the chains in memory, on a copy of the layers. The chains themselves are immutable."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise

from lowtide.engine.types import KEYSPACE_PREFIX
from lowtide.engine.versions.chain import versions_of
from lowtide.engine.versions.layers import Chains, Layer, VersionStore
from lowtide.upkeep.check_base import named
from lowtide.upkeep.report import REPORT, Examination


@dataclass(frozen=True, slots=True)
class LayerCopy:
    """A copy of a layer: its chains, its own counts, and the range of its commits, ``above < ts <= upto``."""

    name: str
    layer: Layer
    chains: Chains
    held: set[bytes]
    versions: int
    bytes: int
    above: int
    upto: int


def copy_layers(versions: VersionStore, published: int) -> list[LayerCopy]:
    """Copy the layers, newest first. Called under the commit lock: two dict copies each, no walk."""
    frozen = versions.frozen
    found = [_copy("active", versions.active, versions.boundary if frozen is None else versions.frozen_upto, published)]
    if frozen is not None:
        found.append(_copy("frozen", frozen, versions.boundary, versions.frozen_upto))
    return found


def _copy(name: str, layer: Layer, above: int, upto: int) -> LayerCopy:
    return LayerCopy(
        name=name,
        layer=layer,
        chains=dict(layer.chains),
        held=set(layer.held),
        versions=layer.versions,
        bytes=layer.bytes,
        above=above,
        upto=upto,
    )


def check_layer(copy: LayerCopy, names: dict[bytes, str], counters: Examination, order: Examination) -> None:
    """Check that a layer's counts are right, and that each chain is in order and within the layer's commits."""
    where = f"{copy.name} layer"
    counted = size = 0
    for key, chain in copy.chains.items():
        stamps = []
        for ts, value in versions_of(chain):
            counted += 1
            size += len(key) + len(value or b"")
            stamps.append(ts)
        _check_chain(copy, key, stamps, names, order)
    counters.examined += counted
    if counted != copy.versions:
        counters.problem(f"it holds {counted} versions but counts {copy.versions}", where, REPORT)
    if size != copy.bytes:
        counters.problem(f"it holds {size} bytes but counts {copy.bytes}", where, REPORT)
    missing = copy.chains.keys() - set(copy.layer.keys.between(b"", None, sys.maxsize, False))
    if missing:
        counters.problem(f"{len(missing)} keys are missing in its order, so scans miss them", where, REPORT)


def _check_chain(copy: LayerCopy, key: bytes, stamps: list[int], names: dict[bytes, str], order: Examination) -> None:
    order.examined += 1
    where = f"{copy.name} layer, {named(names, key)}"
    if any(newer <= older for newer, older in pairwise(stamps)):
        order.problem(f"its versions are not newest first: {stamps[:10]}", where, REPORT)
    if stamps[0] > copy.upto:
        order.problem(f"it has commit {stamps[0]}, but the last possible one is {copy.upto}", where, REPORT)
    if stamps[-1] <= copy.above:
        order.problem(
            f"it has commit {stamps[-1]}, but {copy.above} and earlier belong below",
            where,
            REPORT,
        )
    if len(stamps) > 1 and key not in copy.held:
        order.problem("it has superseded versions that the collector does not know of", where, REPORT)
    if key[:KEYSPACE_PREFIX] not in names:
        order.problem("it is in a keyspace that has no name", where, REPORT)
