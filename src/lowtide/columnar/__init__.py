"""Converts stored documents to Arrow columns in batches, without building a dict per document (extra ``arrow``).

``inference`` infers the column types of a collection. ``columns`` builds record batches with given types. ``table``
combines the two.
"""

from __future__ import annotations

from lowtide.system.extras import require

require("pyarrow", "arrow", "Arrow")
require("numpy", "arrow", "Arrow")
