"""Running Assent on one machine: processes, supervisor, embedded services.

A Django app that may be left out. What is exported here imports nothing of Django.
"""

from __future__ import annotations

from approvals.local.programs import Program
from approvals.local.supervisor import Supervisor, on_stop_signals

__all__ = ["Program", "Supervisor", "on_stop_signals"]
