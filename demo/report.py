"""Act 7, on Spark: one config file runs the whole pipeline, and its report is a page with plots."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import lowtide.pipeline
from demo.checks import Check
from demo.past import Past, Places
from demo.screen import Screen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """\
# The pipeline of the shop: lowtide pipeline run pipeline.toml
store = {store}
archive = {archive}
every = "1h"
compact = "always"
report = {report}
metrics = {metrics}

[keep]
commits = [{good}]

[audit]
history = {history}
level = "serializable"
"""


def run(spark: SparkSession, shop: Places, output: Path, screen: Screen, past: Past) -> list[Check]:
    screen.act(
        "Act 7: an hour's run, and the audit",
        "One file configures the shop's pipeline; a scheduler would run it every hour and check its exit code. The "
        "last step is an audit that does not depend on the store: it reads what every transaction of the shop saw "
        "and wrote, and decides whether that is serializable.",
    )
    config, reports = output / "pipeline.toml", output / "report"
    places = {
        "store": shop.store,
        "archive": shop.archive,
        "report": reports,
        "metrics": output / "pipeline.prom",
        "history": shop.history,
    }
    # Relative to the file's directory, so the file can be moved together with everything it names.
    quoted = {name: json.dumps(os.path.relpath(place, output)) for name, place in places.items()}
    config.write_text(CONFIG.format(**quoted, good=past.good))
    done = lowtide.pipeline.run(spark, config)
    screen.note("  " + str(done).replace(str(shop.archive.absolute()), shop.archive.name).replace("\n", "\n  "))
    written = json.loads((reports / "latest.json").read_text())
    page = reports / "latest.html"
    audit = done.steps[-1].detail
    return [
        Check(
            "One file runs the whole pipeline, and reports what it did",
            f"{', '.join(each.name for each in done.steps)}: exit code {done.exit_code}; {page}",
            done.exit_code == 0 == written["exit_code"] and "<svg" in page.read_text(),
        ),
        Check(
            "The shop was serializable, as it promised",
            f"{audit['committed']:,} transactions and {audit['operations']:,} operations audited, "
            f"{len(audit['names'])} anomalies",
            audit["ok"] and not audit["names"] and audit["committed"] > 0,
        ),
    ]
