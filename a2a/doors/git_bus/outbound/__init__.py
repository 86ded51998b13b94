"""Our requests to others: sent, and their answers collected."""

from a2a.doors.git_bus.outbound.collecting import collect_all
from a2a.doors.git_bus.outbound.sending import send_all, withdraw_all

__all__ = [
    "collect_all",
    "send_all",
    "withdraw_all",
]
