"""Requests of lately and what became of them, counted from the audit log."""

from __future__ import annotations

from ledger.reporting.usage.buckets import wait_quantile_s
from ledger.reporting.usage.counting import OUTCOMES, count_events, rebuild_usage
from ledger.reporting.usage.decided import (
    KINDS,
    Decided,
    count_decided,
    decided_as,
    decided_between,
)
from ledger.reporting.usage.slips import Slip
from ledger.reporting.usage.subjects import forget_subjects
from ledger.reporting.usage.usual import Range, Usual, usage_of_tools, usual_of

__all__ = [
    "KINDS",
    "OUTCOMES",
    "Decided",
    "Range",
    "Slip",
    "Usual",
    "count_decided",
    "count_events",
    "decided_as",
    "decided_between",
    "forget_subjects",
    "rebuild_usage",
    "usage_of_tools",
    "usual_of",
    "wait_quantile_s",
]
