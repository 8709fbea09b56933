"""`python -m demo`: nine acts, then each promise next to what was observed. Exits with 0 if every check passed."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from demo import crash, long_reader, purchases
from demo.checks import Check, Settings
from demo.screen import Screen
from demo.text_plot import text_plot

SPARK = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # A short run: starting sooner matters more than getting faster later.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
#: What remains of the shop, in the report's directory: the store, its archive and its recorded history.
SHOP, ARCHIVE, HISTORY, RESTORED = "shop", "shop-archive", "shop-history", "shop-restored"


def main() -> int:
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    options = _options()
    seconds = options.seconds if options.seconds is not None else 0.7 if options.quick else 4.0
    settings = Settings(
        seconds=seconds,
        threads=4,
        accounts=64,
        kill_within=min(1.5, max(0.3, seconds / 3)),
        seed=options.seed if options.seed is not None else time.time_ns() % 1_000_000,
    )
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    for each in (SHOP, ARCHIVE, HISTORY, RESTORED):
        shutil.rmtree(output / each, ignore_errors=True)
    screen = Screen()
    # Next to the result, not in the system's temporary directory, which may be in memory: the demo shows durability.
    with tempfile.TemporaryDirectory(prefix="stores-", dir=output) as stores:
        checks = _play(Path(stores), output, settings, screen, with_spark=not options.quick)
    screen.summary(checks)
    failed = sum(not check.held for check in checks)
    screen.note("Every promise was kept." if not failed else f"{failed} of {len(checks)} promises FAILED.", "bold")
    if failed:
        screen.note(f"To repeat this run: --seed {settings.seed}")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description="Lowtide at work, live in the terminal.")
    parser.add_argument("--seconds", type=float, help="how long each timed part lasts (4)")
    parser.add_argument("--quick", action="store_true", help="everything but Spark, in a few seconds")
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="where report and pictures go (demo-output)"
    )
    parser.add_argument("--seed", type=int, help="the seed of purchases, transfers and kills (random)")
    options = parser.parse_args()
    if options.seconds is not None and options.seconds <= 0:
        parser.error("--seconds must be above 0")
    return options


def _with_spark(stores: Path, output: Path, settings: Settings, screen: Screen) -> Iterator[list[Check]]:
    """The acts that need Java. Without Java they are skipped, with a message."""
    import lowtide
    import lowtide.spark

    screen.note("\nSpark starts, which takes a while ...")
    try:
        spark = lowtide.spark.session("local[2]", settings=SPARK)
    except lowtide.UsageError as error:
        screen.note(f"  acts 4 to 8 are left out: {error}")
        return
    from demo import judgement, past, report  # here, for it takes a second

    shop = past.Places(output / SHOP, output / ARCHIVE, output / HISTORY, output / RESTORED)
    seen, remembered = past.run(spark, shop, settings, screen)
    yield seen
    yield report.run(spark, shop, output, screen, past=remembered)
    yield judgement.run(spark, stores / "broken.jsonl", output / "anomalies", settings, screen)
    spark.stop()


def _play(stores: Path, output: Path, settings: Settings, screen: Screen, *, with_spark: bool) -> list[Check]:
    checks: list[Check] = []

    def add(seen: list[Check]) -> None:
        for check in seen:
            screen.check(check)
        checks.extend(seen)

    add(purchases.run(output / SHOP, output / HISTORY, settings, screen))
    seen, exact, watermark = long_reader.run(stores / "long-reader", settings, screen)
    add(seen)
    add(crash.run(stores / "crash", settings, screen))
    if with_spark:
        for seen in _with_spark(stores, output, settings, screen):
            add(seen)

    screen.act(
        "Act 9: the plot", "Versions kept against commits, while one snapshot stays open: █ exact, ░ low-water mark."
    )
    screen.note(text_plot(exact.kept, watermark.kept), "cyan")
    # Imported here because it takes a second and the acts do not need it.
    from demo.picture import save_picture

    picture = output / "versions-kept.png"
    save_picture(picture, exact, watermark, settings.accounts + settings.threads)
    screen.note(f"  the same as a picture: {picture}")
    page = output / "report" / "latest.html"
    if with_spark and page.exists():
        screen.note(f"  the report of the pipeline, a page for a browser: {page}")
        screen.note(f"  the past of a price: lowtide pipeline history {output / ARCHIVE} prices 0 --local")
    return checks


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
