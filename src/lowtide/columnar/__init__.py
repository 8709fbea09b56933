"""Arrow: stored documents as columns, a batch at a time, without a dict for each (extra ``arrow``).

``inference`` finds the types that a collection's documents have, ``columns`` builds record batches of given types,
``table`` puts both together.
"""

from __future__ import annotations

from lowtide.system.extras import require

require("pyarrow", "arrow", "Arrow")
require("numpy", "arrow", "Arrow")
