"""Checking what clients and workers send: parts, JSON Schemas, spellings of the envelope."""

from a2a.validation.costs import Cost, cost_in
from a2a.validation.extensions import ENVELOPE_EXTENSION, SKILLS_EXTENSION
from a2a.validation.parts import Part, refuse_malformed, refuse_unstorable
from a2a.validation.spellings import (
    MemberNotReadable,
    capability_of,
    envelope_as_ours,
    is_w3c_trace_id,
    w3c_trace_id,
)

__all__ = [
    "ENVELOPE_EXTENSION",
    "SKILLS_EXTENSION",
    "Cost",
    "MemberNotReadable",
    "Part",
    "capability_of",
    "cost_in",
    "envelope_as_ours",
    "is_w3c_trace_id",
    "refuse_malformed",
    "refuse_unstorable",
    "w3c_trace_id",
]
