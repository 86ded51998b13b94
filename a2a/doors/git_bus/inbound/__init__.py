"""Requests of others: received, admitted, answered."""

from a2a.doors.git_bus.inbound.admission import withdraw_admission
from a2a.doors.git_bus.inbound.answering import REFUSED, answer_all, refuse
from a2a.doors.git_bus.inbound.receiving import recover, take_all

__all__ = [
    "REFUSED",
    "answer_all",
    "recover",
    "refuse",
    "take_all",
    "withdraw_admission",
]
