"""Spark over a store: snapshots and changes as DataFrames, writes as transactions (extra ``spark``).

    import lowtide.spark

    spark = lowtide.spark.session()
    users = lowtide.spark.read(spark, "shop", "users", columns=["_id", "age"], filter={"age": {"$gte": 18}})

See docs/spark.md.
"""

from lowtide.spark.reading import pinned, read
from lowtide.spark.session import register, session

__all__ = ["pinned", "read", "register", "session"]
