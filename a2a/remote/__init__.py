"""Agents elsewhere that do tasks for us: their cards, sending tasks to them, polling, push."""

from __future__ import annotations

from a2a.remote.cards import CardRefused, ReadCard, fingerprint, read_card, skills_of
from a2a.remote.outgoing import takes_files
from a2a.remote.probes import is_sample, send_sample
from a2a.remote.registration import pin, register, register_kind, standing, was_changed

__all__ = [
    "CardRefused",
    "ReadCard",
    "fingerprint",
    "is_sample",
    "pin",
    "read_card",
    "register",
    "register_kind",
    "send_sample",
    "skills_of",
    "standing",
    "takes_files",
    "was_changed",
]
