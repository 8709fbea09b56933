"""Spark over a store: snapshots and changes as DataFrames, writes as transactions (extra ``spark``).

    import lowtide.spark

    spark = lowtide.spark.session()
    users = lowtide.spark.read(spark, "shop", "users", columns=["_id", "age"], filter={"age": {"$gte": 18}})

See docs/spark.md.
"""

from lowtide.spark.session import check_pyspark, register, session

check_pyspark()  # first, so that a missing PySpark is reported by our own error

from lowtide.spark.export import export, read_export  # noqa: E402
from lowtide.spark.loads import release  # noqa: E402
from lowtide.spark.reading import pinned, read  # noqa: E402

__all__ = ["export", "pinned", "read", "read_export", "register", "release", "session"]
