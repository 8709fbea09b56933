"""Act 4: Spark sums up the accounts while the tellers go on, each time at one instant."""

from __future__ import annotations

from pathlib import Path

import lowtide
import lowtide.spark
from demo.bank import ACCOUNTS, open_accounts
from demo.checks import Check, Settings
from demo.screen import Screen
from demo.tellers import Tellers

#: How often the report is made.
REPORTS = 4
TITLE = "Act 4: Spark beside the tellers"


class NoSpark(Exception):
    """Spark cannot start here, for the reason that it says."""


def run(path: Path, settings: Settings, screen: Screen) -> list[Check]:
    screen.act(
        TITLE,
        "The tellers go on; Spark, in processes of its own, reads the accounts from the store's files, each time at "
        "one instant, adds them up, and writes its reports back as a transaction. (Spark needs a while to start.)",
    )
    try:
        spark = lowtide.spark.session("local[2]")
    except lowtide.UsageError as error:
        raise NoSpark(error) from error
    sums, again, versions = [], [], []
    with lowtide.open(path, durability="full") as store:
        open_accounts(store, settings.accounts, settings.opening_balance)
        with Tellers(store, settings):
            for number in range(REPORTS):
                accounts = lowtide.spark.read(spark, path, keyspace=ACCOUNTS, cache=False)
                total = accounts.selectExpr("sum(cast(cast(value as string) as bigint)) money")
                sums.append(total.collect()[0].money)
                versions.append(max(pin.ts for pin in store.pins()))
                again.append(total.collect()[0].money)
                screen.note(f"  report {number + 1} of {REPORTS}, at commit {versions[-1]:,}: {sums[-1]:,}")
            rows = spark.createDataFrame(list(zip(versions, sums, strict=True)), "_id long, money long")
            rows.write.format("lowtide").options(path=str(path), collection="reports").mode("append").save()
            kept = [report["money"] for report in store["reports"].find(sort="_id")]
    return [
        Check(
            "A DataFrame is one instant: Spark finds the same sum, whatever is committed meanwhile",
            f"{REPORTS} reports from commit {versions[0]:,} to {versions[-1]:,}, each read twice: "
            f"{', '.join(f'{each:,}' for each in sorted({*sums, *again}))}",
            {*sums, *again} == {settings.money} and versions[-1] > versions[0],
        ),
        Check(
            "What Spark writes is one transaction of the process that owns the store",
            f"{len(kept)} reports found in the collection",
            kept == sums,
        ),
    ]
