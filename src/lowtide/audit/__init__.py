"""The isolation checker: decides whether an isolation level allows a recorded history.

It does not depend on the engine.

====================================  ==========================================================
``history``                           the rows of a history, one per operation
``orders``                            the version order of each key
``observations``, ``instants``        what each read saw
``graph``                             the dependency graph of the transactions
``cycles``, ``search``                its cycles
``anomalies``, ``levels``             their names, and which level forbids which
``witness``, ``report``               the explanation for the user
``recorder``                          writes histories
====================================  ==========================================================
"""

from lowtide.audit.history import History, Row, write_rows
from lowtide.audit.recorder import Recorder
from lowtide.audit.report import Report, audit

__all__ = ["History", "Recorder", "Report", "Row", "audit", "write_rows"]
