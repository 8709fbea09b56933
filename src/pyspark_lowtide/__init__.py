"""Where Spark looks for the data source ``lowtide`` by itself: modules named ``pyspark_`` and more.

One such module that cannot be imported would keep Spark from finding any, so this one always can.
"""

try:
    from lowtide.spark.source import LowtideSource as DefaultSource
except ImportError:  # Lowtide's extra ``spark`` is not installed
    pass
else:
    __all__ = ["DefaultSource"]
