"""How long a test waits for what must come, before it says that it did not.

A test that passes never waits for so long, so the time is generous: ten times what the slowest machine needs with other
load beside it. LOWTIDE_PATIENCE is for runs in which something is known to be broken, such as the trials of mutants.
"""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("LOWTIDE_PATIENCE", "300"))
