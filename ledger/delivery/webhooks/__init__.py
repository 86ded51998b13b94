"""Telling agents and owning services of events by signed HTTP requests."""

from __future__ import annotations

from ledger.delivery.webhooks.channel import agent_of, form_choices, signed

__all__ = [
    "agent_of",
    "form_choices",
    "signed",
]
