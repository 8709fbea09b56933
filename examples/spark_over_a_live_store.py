"""Spark reads one instant of a store while the application runs, and writes its result back in one transaction."""

from __future__ import annotations

import tempfile
from pathlib import Path

import lowtide
import lowtide.spark


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "shop"
    spark = lowtide.spark.session("local[2]")
    with lowtide.open(path) as shop:
        orders = shop["orders"]
        orders.insert_many([{"_id": n, "customer": f"c{n % 3}", "sum": n} for n in range(1000)])
        frame = lowtide.spark.read(spark, path, "orders")
        print("orders:", frame.count())
        orders.delete_many({"customer": "c2"})  # the application goes on; the DataFrame stays at its instant
        totals = frame.groupBy("customer").sum("sum").toDF("_id", "total")
        totals.write.format("lowtide").options(path=str(path), collection="totals").mode("overwrite").save()
        for row in shop["totals"].find(sort="_id"):
            print(" ", row["_id"], row["total"])
        print("orders now:", orders.count_documents({}))


if __name__ == "__main__":
    main()
