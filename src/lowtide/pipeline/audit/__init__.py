"""The audit at scale: a recorded history of any size, cut where no cycle is possible, and checked in parallel on Spark.

``transactions`` divides each transaction by its keys; ``keys`` audits one key; ``phantoms`` finds what scans missed;
``pieces`` is the rule for cutting a history; ``check`` finds the cycles of one piece. All of these are pure, and the
rules themselves are those of ``lowtide.audit``. ``rows`` reads histories, ``steps`` and ``batches`` make tasks of it,
``job`` is the whole on Spark; ``report`` and ``pictures`` show what was found.
"""

from lowtide.pipeline.audit.job import audit
from lowtide.pipeline.audit.records import Anomaly, Step
from lowtide.pipeline.audit.report import AuditReport

__all__ = ["Anomaly", "AuditReport", "Step", "audit"]
