"""The audit: whether a recorded history is one that an isolation level allows.

It knows nothing of the engine. A history is rows, one for each operation (``history``); from it follow an order of the
versions of each key (``orders``), what each read saw (``observations``, ``instants``), a graph of who comes before
whom (``graph``), its cycles (``cycles``, ``search``), their names (``anomalies``), which level forbids which
(``levels``), and words for it (``witness``, ``report``). ``recorder`` writes histories.
"""

from lowtide.audit.history import History, Row, write_rows
from lowtide.audit.recorder import Recorder
from lowtide.audit.report import Report, audit

__all__ = ["History", "Recorder", "Report", "Row", "audit", "write_rows"]
