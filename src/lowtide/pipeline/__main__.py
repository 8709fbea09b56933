"""``python -m lowtide.pipeline archive STORE ARCHIVE`` is ``lowtide pipeline archive STORE ARCHIVE``.

It is also what spark-submit takes, which wants a file: ``spark-submit .../lowtide/pipeline/__main__.py archive ...``.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    # Called by its path, Python looks for modules beside this file first, where none are meant to be found.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != here]
    sys.argv.insert(1, "pipeline")
    runpy.run_module("lowtide", run_name="__main__", alter_sys=True)
