"""The columnar cache by itself: whole blocks or none, within bounds, and never an error."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lowtide.columnar.cache import Block, Cache
from lowtide.system.identity import boot_id
from tests.support.patience import PATIENCE

SCHEMA = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.list_(pa.struct([("c", pa.string())])))])
HALF = (b"\x00" * 20).hex()
OTHER = (b"\x01" * 20).hex()


def batch(*numbers: int, size: int = 1) -> pa.RecordBatch:
    rows = [{"a": number, "b": [{"c": "x" * size}, None]} for number in numbers]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def fill(cache: Cache, block: Block, *batches: pa.RecordBatch) -> None:
    assert list(cache.fill(block, iter(batches))) == list(batches)


def files(cache: Cache) -> list[str]:
    return sorted(os.listdir(cache.directory)) if cache.directory.exists() else []


def never() -> Iterator[pa.RecordBatch]:
    raise AssertionError("the block is there")
    yield


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [batch()],
        [batch(1, 2), batch(3)],
        [pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))],
    ],
    ids=["nothing", "no rows", "rows", "no columns"],
)
def test_what_was_filled_is_read(cache: Cache, batches: list[pa.RecordBatch]) -> None:
    block = Block(HALF, 7)
    assert cache.read(block) is None
    assert list(cache.read_or_fill(block, lambda: iter(batches))) == batches
    found = list(cache.read_or_fill(block, never))
    assert found == batches
    assert [each.num_rows for each in found] == [each.num_rows for each in batches]
    assert cache.read(Block(HALF, 8)) is None
    assert cache.read(Block(OTHER, 7)) is None


def test_without_a_block_nothing_is_kept(cache: Cache) -> None:
    assert list(cache.read_or_fill(None, lambda: iter([batch(1)]))) == [batch(1)]
    assert files(cache) == []


def test_what_is_mapped_outlives_its_file(cache: Cache) -> None:
    block = Block(HALF, 1)
    fill(cache, block, batch(1), batch(2))
    found = cache.read(block)
    cache.drop()
    assert found == [batch(1), batch(2)]
    assert cache.read(block) is None


def test_only_the_owner_may_look_at_the_files(cache: Cache) -> None:
    before = os.umask(0)
    try:
        fill(cache, Block(HALF, 1), batch(1))
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in cache.directory.parent.rglob("*")}
    modes[cache.directory.parent] = stat.S_IMODE(cache.directory.parent.stat().st_mode)
    assert set(modes.values()) == {0o700, 0o600}
    assert {path for path, mode in modes.items() if mode == 0o600} == {path for path in modes if path.is_file()}


def test_nothing_is_kept_of_what_is_not_read_to_its_end(cache: Cache) -> None:
    for taken in (0, 1, 2):
        filling = cache.fill(Block(HALF, 1), iter([batch(1), batch(2)]))
        for _ in range(taken):
            next(filling)
        filling.close()  # type: ignore[attr-defined]
        assert files(cache) == []


def test_nothing_is_kept_of_what_fails(cache: Cache) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(cache.fill(Block(HALF, 1), failing()))
    assert files(cache) == []


def test_two_who_fill_the_same_block_at_once_leave_it_whole(cache: Cache) -> None:
    block = Block(HALF, 1)
    first, second = (cache.fill(block, iter([batch(1), batch(2)])) for _ in range(2))
    assert [next(first), next(second), next(first), next(second)] == [batch(1), batch(1), batch(2), batch(2)]
    assert cache.read(block) is None
    assert list(first) == []
    assert cache.read(block) == [batch(1), batch(2)]
    assert list(second) == []
    assert cache.read(block) == [batch(1), batch(2)]
    assert files(cache) == [block.file]


@pytest.mark.parametrize("damage", [b"", b"ARROW1\x00\x00", b"nonsense" * 100])
def test_a_block_that_cannot_be_read_is_removed(cache: Cache, damage: bytes) -> None:
    block = Block(HALF, 1)
    fill(cache, block, batch(1))
    (cache.directory / block.file).write_bytes(damage)
    assert cache.read(block) is None
    assert files(cache) == []
    assert list(cache.read_or_fill(block, lambda: iter([batch(1)]))) == [batch(1)]
    assert cache.read(block) == [batch(1)]


def test_a_block_that_was_cut_short_is_removed(cache: Cache) -> None:
    block = Block(HALF, 1)
    fill(cache, block, batch(*range(1000)))
    whole = (cache.directory / block.file).read_bytes()
    (cache.directory / block.file).write_bytes(whole[: len(whole) // 2])
    assert cache.read(block) is None


def age(cache: Cache, *blocks: Block) -> None:
    """Let these blocks be used for the last time, one after the other, long ago."""
    for number, block in enumerate(blocks):
        os.utime(cache.directory / block.file, (number, number))


def test_the_blocks_that_were_not_read_for_the_longest_time_go_first(tmp_path: Path) -> None:
    content = batch(1, size=10_000)
    cache = Cache(tmp_path, 35_000)
    blocks = [Block(HALF, number) for number in range(3)]
    for block in blocks:
        fill(cache, block, content)
    age(cache, *blocks)
    assert cache.read(blocks[0]) is not None
    fill(cache, Block(OTHER, 1), content)
    assert [cache.read(block) is not None for block in blocks] == [True, False, True]
    assert sum(path.stat().st_size for path in cache.directory.iterdir()) <= 35_000


def test_a_block_that_is_larger_than_the_limit_is_not_kept_and_costs_no_other(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 35_000)
    fill(cache, Block(HALF, 1), batch(1))
    fill(cache, Block(OTHER, 1), batch(1, size=20_000), batch(2, size=20_000), batch(3))
    assert files(cache) == [Block(HALF, 1).file]
    fill(Cache(tmp_path / "none", 0), Block(HALF, 1), batch(1))
    assert cache.read(Block(HALF, 1)) == [batch(1)]


def test_a_block_with_two_commits_takes_its_room_once_and_goes_as_one(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 25_000)
    content = batch(1, size=10_000)
    fill(cache, Block(HALF, 1), content)
    assert cache.renew(Block(HALF, 1), 5) == Block(HALF, 5)
    assert cache.renew(Block(HALF, 1), 5) == Block(HALF, 5)
    assert cache.renew(Block(OTHER, 1), 5) is None
    fill(cache, Block(OTHER, 1), content)
    assert cache.commits({HALF, OTHER, "none"}) == {HALF: [1, 5], OTHER: [1]}
    age(cache, Block(HALF, 1))
    fill(cache, Block(OTHER, 2), content)
    assert cache.commits({HALF, OTHER}) == {OTHER: [1, 2]}


KILLED = """
import os, sys
from pathlib import Path
import pyarrow as pa
from lowtide.columnar.cache import Block, Cache
filling = Cache(Path(sys.argv[1])).fill(Block("00" * 20, 1), iter([pa.record_batch({"a": [1]})] * 2))
next(filling)
os._exit(9)
"""


def test_what_killed_processes_left_goes_and_what_living_ones_write_stays(cache: Cache) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(cache.directory.parents[1])], check=False, timeout=PATIENCE)
    left = files(cache)
    assert len(left) == 1
    filling = cache.fill(Block(OTHER, 1), iter([batch(1), batch(2)]))
    next(filling)
    cache.tidy()
    (kept,) = files(cache)
    assert kept not in left
    strange = cache.directory / "strange.tmp"
    strange.touch()
    cache.tidy()
    assert len(files(cache)) == 2
    os.utime(strange, (0, 0))
    cache.tidy()
    assert files(cache) == [kept]
    assert list(filling) == [batch(2)]
    assert files(cache) == [Block(OTHER, 1).file]


def test_nothing_of_an_earlier_start_of_the_machine_is_believed(cache: Cache) -> None:
    fill(cache, Block(HALF, 1), batch(1))
    earlier = cache.directory.with_name("00000000-0000-0000-0000-000000000000")
    cache.directory.rename(earlier)
    assert cache.read(Block(HALF, 1)) is None
    fill(cache, Block(OTHER, 1), batch(1))
    assert [path.name for path in earlier.parent.iterdir()] == [boot_id()]


def test_a_cache_that_cannot_be_written_or_vanishes_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    cache = Cache(tmp_path)
    fill(cache, Block(HALF, 1), batch(1), batch(2))
    assert cache.read(Block(HALF, 1)) is None
    assert cache.commits({HALF}) == {}
    (tmp_path / "cache").unlink()
    filling = cache.fill(Block(HALF, 1), iter([batch(1), batch(2)]))
    assert next(filling) == batch(1)
    cache.drop()
    assert list(filling) == [batch(2)]
    assert cache.read(Block(HALF, 1)) is None
