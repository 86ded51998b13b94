"""Running Assent on one machine: processes, supervisor, embedded services.

The settings import ``processes``; what is exported here therefore imports nothing of Django.
"""

from __future__ import annotations

from approvals.local.programs import Program
from approvals.local.supervisor import Supervisor, on_stop_signals

__all__ = ["Program", "Supervisor", "on_stop_signals"]
