"""What a process of which Spark forks its Python processes imports before it does.

Spark forks a process for each kind of step that Python does: create a source, plan a read, run a task, commit a write.
It starts further ones when others have been idle for a minute or were killed. After the fork each imports PyArrow
and Lowtide, for more than half a second of CPU time. With these imported before, a fork can work at once.

:mod:`tests.support.spark_start` makes ``python -m pyspark.daemon`` run this file when it starts.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Without these settings NumPy and PyArrow start threads when they are imported, and a process with threads must not
fork. Spark imports nothing before the fork for that reason."""
_IMPORTED = ("pyarrow", "lowtide.spark.source", "lowtide.spark.snapshot", "lowtide.spark.writing")
_OF_TASKS = ("pandas",)


def main() -> None:
    os.environ.update(_ONE_THREAD)
    worker = sys.orig_argv[3]  # python -m pyspark.daemon MODULE
    for name in (worker, *_IMPORTED, *(_OF_TASKS if worker == "pyspark.worker" else ())):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not fork"


if __name__ == "__main__":
    main()
