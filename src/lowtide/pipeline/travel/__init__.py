"""Time travel over an archive: which instants can be read, and their rows, on Spark or without."""

from __future__ import annotations

from lowtide.pipeline.travel.reading import gaps
from lowtide.pipeline.travel.retention import Keep
from lowtide.pipeline.travel.travel import as_of, diff, history
from lowtide.pipeline.travel.views import create_views

__all__ = ["Keep", "as_of", "create_views", "diff", "gaps", "history"]
