"""The acts of the demo that need Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from demo import judgement, past, purchases, report
from demo.checks import Settings
from demo.screen import Screen


def test_the_shop_is_archived_put_right_vacuumed_and_audited(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "INSTANTS", 1)
    settings = Settings(seconds=0.5, threads=2, accounts=16, kill_within=1, seed=1)
    screen, shop = Screen(), past.Places(*(tmp_path / name for name in ("shop", "archive", "history", "restored")))
    checks = purchases.run(shop.store, shop.history, settings, screen)
    more, remembered = past.run(spark, shop, settings, screen)
    checks += more
    checks += report.run(spark, shop, tmp_path, screen, past=remembered)
    checks += judgement.run(spark, tmp_path / "broken.jsonl", tmp_path / "pictures", settings, screen)
    assert [each for each in checks if not each.held] == []
    assert len(checks) == 13
    assert (tmp_path / "pictures" / "lost-update.svg").read_text().startswith("<svg")
