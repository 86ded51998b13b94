"""Agents elsewhere that do tasks for us: their cards, sending tasks to them, polling, push."""

from __future__ import annotations

from a2a.remote.cards import CardRefused, Unreachable, check_card
from a2a.remote.outgoing import takes_files
from a2a.remote.registration import due, pin, refetch, refetch_soon, register

__all__ = [
    "CardRefused",
    "Unreachable",
    "check_card",
    "due",
    "pin",
    "refetch",
    "refetch_soon",
    "register",
    "takes_files",
]
