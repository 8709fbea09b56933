"""Act 8, on Spark: the recorded history of a broken engine is audited, and the anomalies are found."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import lowtide
import lowtide.audit
import lowtide.pipeline
from demo.checks import Check, Settings
from demo.hasty import HastyEngine
from demo.screen import Screen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PURCHASES = 400
AT_ONCE = 4
KEYS = 6


def run(spark: SparkSession, broken: Path, pictures: Path, settings: Settings, screen: Screen) -> list[Check]:
    screen.act(
        "Act 8: a broken engine",
        "Would the audit have noticed? Here is an engine that does not check for conflicts, with the same buyers.",
    )
    lost = _record(broken, settings.seed)
    report = lowtide.pipeline.audit(spark, broken, "serializable")
    screen.note(f"  {', '.join(report.names)}; for example:")
    screen.note("    " + (report.of("lost-update") or ["nothing"])[0].replace("\n", "\n    "), "dim")
    drawn = report.draw(pictures)
    return [
        Check(
            "A broken engine is convicted, of the right anomaly, with a witness and a picture",
            f"{lost:,} of its {PURCHASES} purchases were lost; found: {', '.join(report.violations) or 'nothing'}; "
            f"{len(drawn)} pictures in {pictures}",
            lost > 0 and "lost-update" in report.violations and bool(drawn),
        ),
    ]


def _record(path: Path, seed: int) -> int:
    """Let buyers take from the broken engine's stock, a few at a time. Returns how many items were sold twice."""
    chance, engine = random.Random(seed), HastyEngine()
    names = iter(range(1, 1_000_000))
    with lowtide.audit.Recorder(path) as recorder:
        with recorder.begin(engine) as tx:
            for key in range(KEYS):
                tx.put(f"item-{key}", next(names) * 1_000_000 + PURCHASES)
        for _ in range(PURCHASES // AT_ONCE):
            together = [recorder.begin(engine) for _ in range(AT_ONCE)]
            for tx in together:
                wanted, other = (f"item-{key}" for key in chance.sample(range(KEYS), 2))
                left, _ = tx.get(wanted), tx.get(other)
                assert isinstance(left, int)
                # Each value is written only once, so the audit can tell its writer. Its last digits are the stock.
                tx.put(wanted, next(names) * 1_000_000 + left % 1_000_000 - 1)
            for tx in together:
                tx.commit()
        with recorder.begin(engine) as tx:
            found = [tx.get(f"item-{key}") for key in range(KEYS)]
    left_over = sum(each % 1_000_000 for each in found if isinstance(each, int))
    return left_over - (KEYS * PURCHASES - PURCHASES)
