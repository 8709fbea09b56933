"""``python -m bench.arrow``: reading a collection to Arrow, compared with JSON Lines, and importing JSON Lines.

Each measurement runs in its own process. The files are in the page cache.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.drawing import label, make_figure, save
from bench.fresh import in_fresh_process, occupied
from bench.importing import BATCH, WAYS, watched, write_lines
from bench.report import shortened, times
from bench.section import Data, Finding, Grid, Plan

BATCHED, AT_ONCE = "lowtide, in batches", "lowtide, all or nothing"
MOST_GROWTH = 1.25  # of the memory of an import in batches, where the documents are twice as many
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Scale:
    documents: int
    rounds: int


FULL = Scale(1_000_000, 3)
QUICK = Scale(20_000, 1)


# -- reading into Arrow -----------------------------------------------------------------------------------------------


def read_lowtide(place: str, file: str) -> Data:
    import lowtide

    with lowtide.open(place) as store:
        return _timed(lambda: store.collection("people").to_arrow())


def read_duckdb(place: str, file: str) -> Data:
    import duckdb

    return _timed(lambda: duckdb.read_json(file, format="newline_delimited").to_arrow_table())


def read_duckdb_alone(place: str, file: str) -> Data:
    import duckdb

    duckdb.execute("SET threads = 1")
    return read_duckdb(place, file)


def read_pyarrow(place: str, file: str) -> Data:
    from pyarrow import json

    return _timed(lambda: json.read_json(file))


READERS: dict[str, Callable[[str, str], Data]] = {
    "lowtide, to_arrow": read_lowtide,
    "duckdb, read_json": read_duckdb,
    "duckdb, read_json, one thread": read_duckdb_alone,
    "pyarrow, read_json": read_pyarrow,
}


def _timed(read: Callable[[], object]) -> Data:
    # Loading the library is not reading.
    import pyarrow

    started = perf_counter()
    table = read()
    seconds = perf_counter() - started
    assert isinstance(table, pyarrow.Table)
    return {
        "seconds": seconds,
        "rows": table.num_rows,
        "columns": table.num_columns,
        "bytes": table.nbytes,
        "peak": occupied()["VmHWM"],
    }


# -- measuring --------------------------------------------------------------------------------------------------------


def chosen(names: Iterable[str], peers: frozenset[str]) -> list[str]:
    """Those of the stores that were asked for, or else of all that are installed. A name begins with its store's."""
    stores = {name: name.partition(",")[0] for name in names}
    return [name for name, store in stores.items() if util.find_spec(store) and (not peers or store in peers)]


class WrongTable(Exception):
    """Raised if a table lacks rows or columns. Its figures are not shown."""


def measure(plan: Plan, scale: Scale) -> Data:
    count, half = scale.documents, scale.documents // 2
    whole_file, half_file = plan.place / "people.jsonl", plan.place / "half.jsonl"
    plan.step("writing JSON Lines", 0.0)
    length = write_lines(whole_file, count)
    write_lines(half_file, half)
    ways = chosen(WAYS, plan.peers)
    jobs = [(way, whole_file, count) for way in ways] + [(BATCHED, half_file, half)]
    readers = chosen(READERS, plan.peers)
    steps = len(jobs) + len(readers) * scale.rounds
    loaded = plan.place / "loaded"
    imports: list[Data] = []
    reads: list[Data] = []
    for done, (way, file, number) in enumerate(jobs):
        plan.step(f"importing {number:,} documents: {way}", done / steps)
        place = plan.place / f"imported-{done}"
        imports.append(watched(way, place, file, number))
        if (way, number) == (BATCHED, count):
            place.rename(loaded)
        else:
            shutil.rmtree(place)
    for number in range(scale.rounds):
        for done, reader in enumerate(readers):
            plan.step(reader, (len(jobs) + number * len(readers) + done) / steps)
            found = in_fresh_process(READERS[reader], place=str(loaded), file=str(whole_file))
            if found["rows"] != count:
                raise WrongTable(f"{reader}: {count:,} rows were to be read, {found['rows']:,} were")
            reads.append({"reader": reader, "round": number} | found)
    if len({read["columns"] for read in reads}) != 1:
        raise WrongTable(f"the tables have {sorted({read['columns'] for read in reads})} columns")
    return {"documents": count, "file_bytes": length, "rounds": scale.rounds, "imports": imports, "reads": reads}


# -- showing ----------------------------------------------------------------------------------------------------------


def rows_per_second(data: Data, reader: str) -> float:
    return median(float(data["documents"] / read["seconds"]) for read in data["reads"] if read["reader"] == reader)


def ratio(data: Data, reader: str) -> float:
    """Lowtide relative to this reader: the median of the ratios within each round."""
    by_round: dict[int, dict[str, float]] = {}
    for read in data["reads"]:
        by_round.setdefault(read["round"], {})[read["reader"]] = read["seconds"]
    return median(seconds[reader] / seconds["lowtide, to_arrow"] for seconds in by_round.values())


def readers_of(data: Data) -> list[str]:
    return list(dict.fromkeys(read["reader"] for read in data["reads"]))


class Arrow:
    name = "arrow"
    title = "To Arrow, and from JSON Lines"

    def run(self, plan: Plan) -> Data:
        scale = QUICK if plan.quick else FULL
        return measure(plan, Scale(plan.documents or scale.documents, plan.rounds or scale.rounds))

    def grids(self, data: Data) -> list[Grid]:
        return [self._reading(data), self._importing(data)]

    def _reading(self, data: Data) -> Grid:
        rows = []
        for reader in readers_of(data):
            reads = [read for read in data["reads"] if read["reader"] == reader]
            rows.append(
                (
                    reader,
                    shortened(rows_per_second(data, reader)),
                    times(ratio(data, reader)),
                    f"{median(read['bytes'] for read in reads) / _MEBIBYTE:,.0f}",
                    f"{median(read['peak'] for read in reads) / _MEBIBYTE:,.0f}",
                )
            )
        return Grid(
            f"{data['documents']:,} documents as an Arrow table",
            ("reader", "rows/s", "Lowtide / it", "table MiB", "peak memory MiB"),
            rows,
            f"Medians of {data['rounds']} interleaved rounds. Lowtide reads its collection; the others read the same "
            f"documents as JSON Lines, a file of {data['file_bytes'] / _MEBIBYTE:,.0f} MiB. They use all cores, "
            "but for the line that says otherwise. Peak memory has the table in it, and the mapped pages of the store.",
        )

    def _importing(self, data: Data) -> Grid:
        rows = [
            (
                each["way"],
                f"{each['documents']:,}",
                f"{each['seconds']:.1f}",
                shortened(each["documents"] / each["seconds"]),
                f"{each['own'] / _MEBIBYTE:,.0f}",
                f"{each['resident'] / _MEBIBYTE:,.0f}",
            )
            for each in data["imports"]
        ]
        return Grid(
            "Importing JSON Lines",
            ("way", "documents", "s", "documents/s", "own memory MiB", "resident MiB"),
            rows,
            f"The command `lowtide import`, with its start and its end; in batches is `--batches {BATCH}`. sqlite3 "
            "puts each line as JSON text into a table with a key, in WAL mode, with the same batches, synced; duckdb "
            "makes columns of the fields, in one statement. No secondary indexes. Memory is the most that was seen: "
            "the process's own, and with the pages of files that it has mapped.",
        )

    def findings(self, data: Data) -> list[Finding]:
        batched = {each["documents"]: each["own"] for each in data["imports"] if each["way"] == BATCHED}
        half, whole = sorted(batched)
        growth = batched[whole] / batched[half]
        return [
            Finding(
                f"import in batches: {whole:,} documents take at most {MOST_GROWTH}x the memory of {half:,}",
                f"{growth:.2f}x, {batched[whole] / _MEBIBYTE:,.0f} MiB",
                growth <= MOST_GROWTH,
            )
        ]

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figure, (left, right) = make_figure(2, width=5.5, height=2.6)
        readers = readers_of(data)[::-1]
        bars = left.barh(readers, [rows_per_second(data, reader) / 1e3 for reader in readers])
        left.bar_label(bars, fmt="%.0f", fontsize="x-small", padding=2)
        label(left, "an Arrow table", "thousand rows a second")
        imports = [each for each in data["imports"] if each["documents"] == data["documents"]][::-1]
        rates = [each["documents"] / each["seconds"] / 1e3 for each in imports]
        bars = right.barh([each["way"] for each in imports], rates)
        right.bar_label(bars, fmt="%.0f", fontsize="x-small", padding=2)
        label(right, "importing JSON Lines", "thousand documents a second")
        caption = f"{data['documents']:,} documents into Arrow, and out of JSON Lines into a store."
        return [(caption, save(figure, directory, self.name))]


SECTION = Arrow()

if __name__ == "__main__":
    from bench import alone

    alone.main("arrow")
