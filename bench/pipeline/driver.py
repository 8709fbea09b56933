"""What the files of an archive cost the driver: the time and the memory to open a table that has many of them.

python -m bench.pipeline.driver

The files are only named in the table's log and do not exist, so a million of them fit on any disk.
"""

from __future__ import annotations

import argparse
import tempfile
from time import perf_counter

from bench.fresh import in_fresh_process, occupied
from bench.section import Data
from lowtide.columnar.inference import Fields
from lowtide.pipeline.tables.files import VersionFile
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.table import VersionTable

COMMITS = 10
"""Runs that have added the files."""


def table_in(path: str) -> VersionTable:
    return VersionTable(Location.of(path), "files", is_keyspace=False)


def publish(path: str, files: int) -> Data:
    """Make a table whose log names this many files."""
    table = table_in(path)
    table.create(Fields())
    each = files // COMMITS
    for run in range(COMMITS):
        table.append([_file(run * each + number) for number in range(each)], run + 1)
    return {}


def _file(number: int) -> VersionFile:
    return VersionFile(
        name=f"closed-{number:032}.parquet",
        size=128 << 20,
        rows=1_000_000,
        first_version=number,
        last_version=number + 1,
        last_end=number + 2,
        first_key=f"{number:020}",
        last_key=f"{number + 1:020}",
    )


def opened(path: str) -> Data:
    """The seconds to list the files of the table, and the additional bytes of memory that the process needed."""
    before = occupied()["VmRSS"]
    begun = perf_counter()
    count = len(table_in(path).files)
    assert count, path
    return {"seconds": perf_counter() - begun, "memory": occupied()["VmHWM"] - before}


def main() -> None:
    from bench.pipeline import driver  # by its own name, which the process of a step imports

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    for files in parser.parse_args().files:
        with tempfile.TemporaryDirectory() as place:
            in_fresh_process(driver.publish, path=place, files=files)
            found = in_fresh_process(driver.opened, path=place)
            seconds, memory = found["seconds"], found["memory"]
            print(f"{files:,} files: {seconds:.2f} s, {memory / 2**20:.0f} MiB, {memory / files:,.0f} bytes a file")


if __name__ == "__main__":
    main()
