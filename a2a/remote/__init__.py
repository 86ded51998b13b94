"""Agents elsewhere that do tasks for us: their cards, sending tasks to them, polling, push."""

from __future__ import annotations

from a2a.remote.cards import CardRefused, Unreachable, check_card
from a2a.remote.outgoing import takes_files
from a2a.remote.probes import is_sample, send_sample
from a2a.remote.registration import pin, register, register_kind

__all__ = [
    "CardRefused",
    "Unreachable",
    "check_card",
    "is_sample",
    "pin",
    "register",
    "register_kind",
    "send_sample",
    "takes_files",
]
