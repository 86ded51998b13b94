"""The log for a SIEM: every sealed event, in its order, to one receiver of the installation."""

from __future__ import annotations

from ledger.delivery.siem.checks import terms
from ledger.delivery.siem.sending import Siem, behind_since, send_batch

__all__ = ["Siem", "behind_since", "send_batch", "terms"]
