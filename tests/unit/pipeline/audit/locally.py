"""Runs the steps of the audit in pieces one after another, in one process, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeVar

from lowtide.audit import History
from lowtide.audit.history import Name
from lowtide.pipeline.audit.check import HistoryPiece, broken_instants
from lowtide.pipeline.audit.keys import Audited, audit_key
from lowtide.pipeline.audit.phantoms import Firsts
from lowtide.pipeline.audit.pieces import NOWHERE, Places, after
from lowtide.pipeline.audit.records import Anomaly, Glimpse, KeyShare, RangeRead, TransactionHeader
from lowtide.pipeline.audit.transactions import Beliefs, believed, divided, position, scale_of

_T = TypeVar("_T")


def given(thing: _T) -> Callable[[], _T]:
    return lambda: thing


class Local:
    """A history, audited in pieces; ``every`` so many positions it may be cut."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], every: int = 1) -> None:
        self.headers: list[TransactionHeader] = []
        self.shares: dict[str, list[KeyShare]] = {}
        self.scans: list[RangeRead] = []
        self.sizes: list[int] = []
        self.anomalies: list[Anomaly] = []
        for transaction in History.of(rows).transactions:
            header, shares, scans = divided(transaction)
            self.headers.append(header)
            self.scans += scans
            for key, share in shares.items():
                self.shares.setdefault(key, []).append(share)
        self.believe()
        audited = [audit_key(key, shares, self.believed) for key, shares in self.shares.items()]
        for each in audited:
            self.anomalies += each.anomalies
        self.place(audited)
        self.cut(audited, every)
        self.look_at_instants(audited)

    def believe(self) -> None:
        doubted = {each.facts.name for each in self.headers if each.facts.outcome == "unknown"}
        pairs = [(key, share) for key, shares in self.shares.items() for share in shares]
        beliefs = Beliefs(pair for pair in pairs if pair[1].facts.name in doubted)
        self.believed = believed(
            (share.facts.name, share.facts.outcome == "committed", writer)
            for key, share in pairs
            for writer in beliefs.seen(key, share)
        )
        self.headers = [each for each in self.headers if self.counts(each.facts.name, each.facts.outcome)]
        self.scans = [each for each in self.scans if self.counts(each.facts.name, each.facts.outcome)]

    def counts(self, name: Name, outcome: str) -> bool:
        return outcome == "committed" or name in self.believed

    def place(self, audited: list[Audited]) -> None:
        facts = [header.facts for header in self.headers]
        times = any(each.begun is not None and each.ended is not None for each in facts)
        scale = scale_of(times, any(each.last is not None for each in facts))
        known = {each.name: position(each, scale) for each in facts}
        seen: dict[Name, float] = {}
        for link in (link for each in audited for link in each.links if link.kind == "wr"):
            writer = known[link.source]
            if writer is not None and known[link.target] is None:
                seen[link.target] = max(writer, seen.get(link.target, NOWHERE))
        self.positions = {
            name: place if place is not None else after(seen[name]) if name in seen else NOWHERE
            for name, place in known.items()
        }

    def cut(self, audited: list[Audited], every: int) -> None:
        at = self.positions
        places = Places(sorted(at.values())[::every])
        back = [(at[link.source], at[link.target]) for each in audited for link in each.links]
        others = self.sessions()
        firsts = Firsts((first, at[first.name]) for each in audited for first in each.firsts)
        self.missed: list[Glimpse] = []
        for scan in self.scans:
            missed = firsts.missed(scan)
            if missed is not None:
                others.append((at[scan.facts.name], missed.position))
                if missed.glimpse is not None:
                    self.missed.append(missed.glimpse)
        back = [(source, target) for source, target in back + others if source >= target]
        places.note([target for _, target in back], [source for source, _ in back])
        found = places.pieces()
        pieces: dict[int, HistoryPiece] = {}

        def piece(where: float) -> HistoryPiece:
            return pieces.setdefault(int(found.of([where])[0]), HistoryPiece())

        for header in self.headers:
            where = at[header.facts.name]
            piece(where).headers.append((where, given(header)))
        for each in audited:
            for link in each.links:
                source, target = at[link.source], at[link.target]
                if piece(source) is piece(target):
                    piece(source).links.append((source, target, given(link)))
            for first in each.firsts:
                piece(at[first.name]).firsts.append((at[first.name], given(first)))
        for scan in self.scans:
            piece(at[scan.facts.name]).scans.append((at[scan.facts.name], given(scan)))
        for source, target in others:
            if source >= target:
                piece(source).back.append((source, target))
        pieces.pop(-1, None)
        for each_piece in pieces.values():
            self.sizes.append(len(each_piece.headers))
            self.anomalies += each_piece.anomalies()

    def sessions(self) -> list[tuple[float, float]]:
        by_session: dict[Name, list[tuple[int, float]]] = {}
        for header in self.headers:
            if header.session is not None and header.turn is not None:
                place = self.positions[header.facts.name]
                by_session.setdefault(header.session, []).append((header.turn, place))
        return [
            (earlier, later)
            for turns in by_session.values()
            for (_, earlier), (_, later) in pairwise(sorted(turns, key=lambda each: each[0]))
        ]

    def look_at_instants(self, audited: list[Audited]) -> None:
        by_name: dict[Name, list[Glimpse]] = {}
        for glimpse in [*(glimpse for each in audited for glimpse in each.glimpses), *self.missed]:
            by_name.setdefault(glimpse.name, []).append(glimpse)
        for glimpses in by_name.values():
            self.anomalies += broken_instants(glimpses)

    @property
    def names(self) -> set[str]:
        return {each.name for each in self.anomalies}
