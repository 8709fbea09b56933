"""`python -m demo`: five acts, then what was promised and what was seen. Exits with 0 if every check held."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from demo import crash, long_reader, transfers
from demo.checks import Check, Settings
from demo.screen import Screen
from demo.text_plot import text_plot


def main() -> int:
    options = _options()
    seconds = options.seconds if options.seconds is not None else 0.7 if options.quick else 6.0
    settings = Settings(
        seconds=seconds,
        threads=4,
        accounts=64,
        kill_within=min(1.5, max(0.3, seconds / 3)),
        seed=options.seed if options.seed is not None else time.time_ns() % 1_000_000,
    )
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    screen = Screen()
    # Beside the result, not where the system keeps temporary files: those may be in memory, and durability is on show.
    with tempfile.TemporaryDirectory(prefix="stores-", dir=output) as stores:
        checks = _play(Path(stores), output, settings, screen, with_spark=not options.quick)
    screen.summary(checks)
    failed = sum(not check.held for check in checks)
    screen.note("Every promise was kept." if not failed else f"{failed} of {len(checks)} promises FAILED.", "bold")
    if failed:
        screen.note(f"To play the same transfers again: --seed {settings.seed}")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description="Lowtide at work, live in the terminal.")
    parser.add_argument("--seconds", type=float, help="how long each timed part lasts (6)")
    parser.add_argument("--quick", action="store_true", help="everything but Spark, in a few seconds")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="where the plot goes (demo-output)")
    parser.add_argument("--seed", type=int, help="of the transfers and of the moments of the kills (random)")
    options = parser.parse_args()
    if options.seconds is not None and options.seconds <= 0:
        parser.error("--seconds must be above 0")
    return options


def _with_spark(store: Path, settings: Settings, screen: Screen) -> list[Check]:
    """The act that needs Java: without it, it is left out, and the reason said."""
    from demo import spark_report  # here, for it takes a second

    try:
        return spark_report.run(store, settings, screen)
    except spark_report.NoSpark as error:
        screen.note(f"  left out: {error}")
        return []


def _play(stores: Path, output: Path, settings: Settings, screen: Screen, *, with_spark: bool) -> list[Check]:
    checks: list[Check] = []

    def add(seen: list[Check]) -> None:
        for check in seen:
            screen.check(check)
        checks.extend(seen)

    add(transfers.run(stores / "transfers", settings, screen))
    seen, exact, watermark = long_reader.run(stores / "long-reader", settings, screen)
    add(seen)
    add(crash.run(stores / "crash", settings, screen))
    if with_spark:
        add(_with_spark(stores / "spark", settings, screen))

    screen.act(
        "Act 5: the plot", "Versions kept against commits, while one snapshot stays open: █ exact, ░ low-water mark."
    )
    screen.note(text_plot(exact.kept, watermark.kept), "cyan")
    # Imported here, for it takes a second and the acts need it not.
    from demo.picture import save_picture

    picture = output / "versions-kept.png"
    save_picture(picture, exact, watermark, settings.accounts + settings.threads)
    screen.note(f"  the same as a picture: {picture}")
    return checks


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
