"""What was asked for lately and what became of it, counted from the audit log."""

from __future__ import annotations
