"""Identifiers of our extensions of the A2A protocol."""

from __future__ import annotations

ENVELOPE_EXTENSION = "urn:assent:a2a:envelope:1"
SKILLS_EXTENSION = "urn:assent:a2a:skills:1"
