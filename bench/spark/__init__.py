"""Lowtide as a data source of Spark, compared with Parquet, JSON Lines and sqlite3 in the same session.

Nothing is imported here: Spark's Python workers import :mod:`bench.spark.sources`, and need nothing else.
"""
