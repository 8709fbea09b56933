"""Resolves what the committed transactions saw: the position of each read in the version order of its key.

Also finds the anomalies of single reads: a value that no transaction wrote, a writer that was rolled back or had not
finished, and own writes that are missing or visible too early.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import UNSET

from lowtide.audit.anomalies import Finding
from lowtide.audit.history import WRITES, Element, History, Row, Value
from lowtide.audit.orders import UNKNOWN, AppendList, Order, Read, Register, Write, shortened
from lowtide.errors import UsageError


class Observations:
    """The version orders of all keys, the positions of reads in them, and the anomalies of single reads."""

    def __init__(self, history: History) -> None:
        self.transactions = history.transactions
        self.counted = [each.outcome == "committed" for each in history.transactions]
        """The committed transactions: those recorded as such, and those of unknown outcome whose writes were read."""
        self.orders: dict[str, Order] = {}
        self.finals: list[dict[str, Write]] = [{} for _ in history.transactions]
        """By transaction, its last write of each key."""
        self.reads: list[Read] = []
        self.findings: list[Finding] = []
        self.unresolved = 0
        """Reads that found nothing, if several states of the key, or none, explain that."""
        self._writes: dict[tuple[int, int], Write] = {}
        self._gather()
        self._believe()
        for key in sorted(self.orders):
            for name, words, to_blame in self.orders[key].settle(self.counted.__getitem__):
                self.findings.append(Finding(name, to_blame, (key,), words))
        self._keys = sorted(self.orders)
        for tx, counted in enumerate(self.counted):
            if counted:
                self._walk(tx)

    @property
    def unplaced(self) -> int:
        """Count the committed writes whose position in the order of their key is unknown: unread appends, and writes
        without a version."""
        return sum(
            write.position == UNKNOWN and write.final and self.counted[write.tx]
            for order in self.orders.values()
            for write in order.writes
        )

    def _gather(self) -> None:
        """Collect the writes of all transactions, including aborted ones, which may have been read."""
        for tx, transaction in enumerate(self.transactions):
            finals = self.finals[tx]
            for place, row in enumerate(transaction.operations):
                if row.op not in WRITES:
                    continue
                key, appended = row.key or "", row.op == "append"
                value = row.value if isinstance(row.value, int | str) else None
                write = Write(tx, place, key, value, row.version, appended=appended, merged=row.merged)
                order = self.orders.get(key)
                if order is None:
                    order = self.orders[key] = AppendList(key) if appended else Register(key)
                elif appended is not isinstance(order, AppendList):
                    raise UsageError(f"{key!r} is both written and appended to; a key is one or the other")
                order.writes.append(write)
                if isinstance(order, AppendList):
                    order.note(write)
                write.earlier = finals.get(key)
                if write.earlier is not None:
                    write.earlier.final = False
                finals[key] = write
                self._writes[tx, place] = write
            for write in finals.values():
                if write.version is None:
                    write.version = transaction.version

    def _believe(self) -> None:
        """Find the longest read of each list. Also count a transaction of unknown outcome as committed if a committed
        one read its writes."""
        doubted = {tx for tx, each in enumerate(self.transactions) if each.outcome == "unknown"}
        hints = self._hints(doubted)
        waiting = [tx for tx, counted in enumerate(self.counted) if counted]
        while waiting:
            tx = waiting.pop()
            for key, value in self._shown(tx):
                order = self.orders.get(key)
                if isinstance(order, AppendList) and isinstance(value, list):
                    longest = order.longest
                    if len(value) > len(longest) or (
                        len(value) == len(longest) and value != longest and _less(value, longest)
                    ):
                        order.longest = value
                if not doubted:
                    continue
                for element in value if isinstance(value, list) else [value]:
                    writer = hints.get((key, element)) if element is not None else None
                    if writer is not None and not self.counted[writer]:
                        self.counted[writer] = True
                        waiting.append(writer)

    def _hints(self, doubted: set[int]) -> dict[tuple[str, Element], int]:
        return {
            (write.key, write.value): write.tx
            for order in self.orders.values()
            for write in order.writes
            if write.tx in doubted and write.value is not None
        }

    def _shown(self, tx: int) -> Iterator[tuple[str, Value]]:
        for row in self.transactions[tx].operations:
            if row.op == "read" and row.value is not UNSET:
                yield row.key or "", row.value
            elif row.op == "scan" and row.values is not None:
                yield from row.values.items()

    # The reads of one transaction

    def _walk(self, tx: int) -> None:
        own: dict[str, list[Write]] = {}
        for place, row in enumerate(self.transactions[tx].operations):
            if row.op in WRITES:
                own.setdefault(row.key or "", []).append(self._writes[tx, place])
            elif row.op == "read":
                given = row.value is not UNSET
                value = row.value if row.value is not UNSET else None
                self._read(tx, place, row.key or "", value, row.version, given=given, own=own)
            else:
                self._scan(tx, place, row, own)

    def _scan(self, tx: int, place: int, row: Row, own: dict[str, list[Write]]) -> None:
        values, versions = row.values or {}, row.versions or {}
        low, high = row.low or "", row.high
        found = sorted(values.keys() | versions.keys())
        for key in found:
            if key < low or (high is not None and key >= high):
                self._find("garbage", f"a scan from {low!r} to {high!r} found {key}", (tx,), key)
            self._read(tx, place, key, values.get(key), versions.get(key), given=key in values, own=own)
        first = bisect_left(self._keys, low)
        end = len(self._keys) if high is None else bisect_left(self._keys, high)
        there = set(found)
        for key in self._keys[first:end]:
            if key not in there:
                self._read(tx, place, key, None, None, given=True, own=own, phantom=True)

    def _read(
        self,
        tx: int,
        place: int,
        key: str,
        value: Value,
        version: int | None,
        *,
        given: bool,
        own: dict[str, list[Write]],
        phantom: bool = False,
    ) -> None:
        shown = value
        self._look_ahead(tx, place, key, value, version)
        if (mine := own.get(key)) is not None:
            if mine[-1].appended:
                elements, appended = _elements(value), [write.value for write in mine]
                if elements[-len(appended) :] == appended:
                    value = elements[: -len(appended)]
                    place = mine[0].place  # the elements before its own are those it appended to
                else:
                    self._not_its_own(tx, key, shown, f"it had appended {appended}")
            elif _is_own(mine[-1], value, version, given):
                return
            else:
                self._not_its_own(
                    tx, key, shown if given else f"version {version}", f"it had written {mine[-1].value!r}"
                )
        order = self.orders.get(key)
        if order is None:
            order = Register(key)
        sight = order.seen(value, version, given)
        if sight is None:
            self.unresolved += 1
            return
        for name, words, to_blame in sight.problems:
            self._find(name, f"{self.transactions[tx]} read it: {words}", (tx, *to_blame), key)
        writer, position = sight.writer, sight.position
        if writer is not None:
            if writer.tx == tx:
                return
            counted = self.counted[writer.tx]
            if not (counted and writer.final):
                what = f"version {version}" if version is not None else shortened(shown)
                words = f"{self.transactions[tx]} read {key} = {what}, which {self.transactions[writer.tx]} "
                words += "wrote and overwrote before it committed" if counted else "wrote and rolled back"
                self._find("G1b" if counted else "G1a", words, (tx, writer.tx), key)
            if not counted:
                return
        if position != UNKNOWN or writer is not None:
            told = shown if given else None
            self.reads.append(Read(tx, place, key, position, writer, shown=told, phantom=phantom))

    def _look_ahead(self, tx: int, place: int, key: str, value: Value, version: int | None) -> None:
        """Find reads that show a write which their own transaction made only later. No level allows that."""
        write, early = self.finals[tx].get(key), None
        while write is not None and write.place > place:
            if version is not None:
                there = version == write.version
            elif isinstance(value, list):
                there = write.value in value
            else:
                there = value is not None and value == write.value
            if there:
                early = write
            write = write.earlier
        while early is not None and write is not None:
            if write.value == early.value:  # it was written before, too
                return
            write = write.earlier
        if early is not None:
            what = f"version {version}" if version is not None else shortened(value)
            did = "appended" if early.appended else "wrote"
            words = f"{self.transactions[tx]} read {key} = {what}, and {did} {early.value!r} only afterwards"
            self._find("future-read", words, (tx,), key)

    def _not_its_own(self, tx: int, key: str, shown: object, instead: str) -> None:
        self._find("internal", f"{self.transactions[tx]} read {key} = {shown!r}, though {instead}", (tx,), key)

    def _find(self, name: str, words: str, transactions: tuple[int, ...], key: str) -> None:
        self.findings.append(Finding(name, transactions, (key,), words))


def _is_own(mine: Write, value: Value, version: int | None, given: bool) -> bool:
    if version is not None:
        return version == mine.version
    return given and value == mine.value


def _elements(value: Value) -> list[Element]:
    return value if isinstance(value, list) else []


def _less(first: list[Element], second: list[Element]) -> bool:
    """An order of lists that hold numbers and strings."""
    return [str(each) for each in first] < [str(each) for each in second]
