"""Prepares a virtual environment, once, in which Spark starts quickly.

* PySpark as it is installed. Spark puts a zip of PySpark's sources first on the path of its Python processes, and each
  of them compiles those sources again, for half a second. The installed package is the same, and is compiled.
* Imports before forks: see :mod:`tests.support.spark_daemon`.

``python -m tests.support.spark_start`` arranges this, as ``make test`` does. It only makes the tests faster. An archive
of Java's loaded classes would not: to make it takes more CPU time than all sessions of a test run gain by it.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Final

from tests.support import spark_daemon

_QUICK: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn384m -XX:ReservedCodeCacheSize=240m -Xlog:disable"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:-PrintWarnings"
)
"""What makes a session start, and small queries run, quickly. To verify Spark's classes takes a tenth of the time of a
session. Java warns of that option, in words that hide its version."""
_OPTIONS: Final = "JAVA_TOOL_OPTIONS"
_PATHS: Final = Path(sysconfig.get_path("purelib"), "lowtide_tests.pth")
"""Python runs the lines of such a file when it starts, after it has read PYTHONPATH."""
_WITHOUT_ZIP: Final = 'import sys; sys.path[:] = [each for each in sys.path if not each.endswith("pyspark.zip")]\n'
_WITH_IMPORTS: Final = (
    'import sys; sys.orig_argv[2:3] == ["pyspark.daemon"] and __import__("runpy").run_path({!r}, run_name="__main__")\n'
)


def set_java_options() -> None:
    """Have every Java that this process starts from now on use these options, unless others are given."""
    os.environ.setdefault(_OPTIONS, _QUICK)


def main() -> None:
    _PATHS.write_text(_WITHOUT_ZIP + _WITH_IMPORTS.format(spark_daemon.__file__))


if __name__ == "__main__":
    main()
