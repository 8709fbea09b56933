from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from bench import long_reader
from bench.held import Holder, installed_peers
from bench.long_reader import WATERMARK, WITH, WITHOUT, Scale
from bench.section import Data
from bench.variant import Sample
from tests.bench.support import check_shown, make_plan, through_json

TINY = Scale(2_000, 250, 500, checkpoint_bytes=32 << 10)


@pytest.mark.parametrize("holder", ["snapshot", "pin"])
def test_all_stores_take_their_turns_and_show_what_they_should(holder: Holder, tmp_path: Path) -> None:
    section = long_reader.LongReader(holder, TINY)
    data = section.run(make_plan(tmp_path))
    assert data["samples"].keys() == {
        WITH,
        WITHOUT,
        WATERMARK,
        *(f"{name} with a reader" for name in installed_peers()),
    }
    for samples in data["samples"].values():
        assert [sample["updates"] for sample in samples] == [500, 1_000, 1_500, 2_000]
    assert 0 < max(sample["history"] for sample in data["samples"][WITH]) <= 250
    assert data["settings"]["holder"] == holder
    check_shown(section, data, tmp_path)


def sample(number: int, seconds: float = 1.0, disk: int = 1_000, resident: int = 1_000) -> Sample:
    return Sample(number * 100, seconds, 100 / seconds, 10, 10, 10, 10_000, resident, disk)


def run_of(**changed: Sequence[float]) -> Data:
    """Eight portions, all alike; ``changed`` is by field, of the store with the reader."""
    plain = [sample(number) for number in range(1, 9)]
    held = [sample(n + 1, **{name: values[n] for name, values in changed.items()}) for n in range(8)]  # type: ignore[arg-type]
    samples = {WITH: held, WITHOUT: plain, WATERMARK: plain}
    return through_json(
        {
            "settings": asdict(TINY) | {"holder": "snapshot"},
            "samples": {title: [asdict(each) for each in found] for title, found in samples.items()},
            "stopped": {WATERMARK: "60 s"},
        }
    )


@pytest.mark.parametrize(
    ("data", "missed"),
    [
        (run_of(), []),
        (run_of(seconds=[1.2] * 8), ["throughput: at least 0.9x without the reader"]),
        (run_of(seconds=[0.5] * 4 + [1.0] * 4), ["throughput, last quarter: at least 0.8x the second"]),
        (run_of(resident=[1_000] * 6 + [1_300] * 2), ["memory, last quarter: at most 1.2x the second"]),
        (run_of(disk=[1_000] * 6 + [1_300] * 2), ["disk, last quarter: at most 1.2x the second"]),
        (run_of(disk=[2_600] * 8), ["disk: at most 2.5x without the reader"]),
    ],
)
def test_what_a_reader_may_not_cost_is_found(data: Data, missed: list[str]) -> None:
    assert [finding.target for finding in long_reader.SECTION.findings(data) if not finding.met] == missed


def test_a_store_that_used_up_its_disk_ends_there_and_the_table_says_so(tmp_path: Path) -> None:
    data = long_reader.measure(make_plan(tmp_path), Scale(400, 50, 100, disk_bytes=1), "snapshot")
    assert {len(samples) for samples in data["samples"].values()} == {1}
    assert data["stopped"].keys() == data["samples"].keys()


def test_a_run_of_fewer_than_four_portions_is_refused() -> None:
    with pytest.raises(ValueError, match="four portions"):
        Scale(300, 10, 100)
