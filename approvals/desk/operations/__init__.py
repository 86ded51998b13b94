"""Figures of the operations page."""

from approvals.desk.operations.charts import decisions_by_hour, stacked, time_to_decide
from approvals.desk.operations.limits import agents_near_a_limit, recent_refusals
from approvals.desk.operations.supervisors import agreement_in

__all__ = [
    "agents_near_a_limit",
    "agreement_in",
    "decisions_by_hour",
    "recent_refusals",
    "stacked",
    "time_to_decide",
]
