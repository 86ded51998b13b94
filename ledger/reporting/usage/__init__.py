"""Requests of lately and what became of them, counted from the audit log."""

from __future__ import annotations
