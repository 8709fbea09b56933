"""Where Spark looks for the data source ``lowtide`` by itself: modules named ``pyspark_`` and more.

One such module that cannot be imported would keep Spark from finding any, so this one always can.
"""

from lowtide.errors import UsageError

try:
    from lowtide.spark.source import LowtideSource as DefaultSource
except (ImportError, UsageError):  # PySpark is another than Lowtide's extra ``spark`` brings
    pass
else:
    __all__ = ["DefaultSource"]
