"""Settings as files: what operators click together, declared, planned, applied and exported.

``kinds`` says what a kind of document is, ``registry`` lists them, ``plans`` compares and carries
out. Each of the other modules is a family of kinds.
"""

from __future__ import annotations

from approvals.declared.documents import Document, FilesRefused, read, text_of
from approvals.declared.kinds import Run
from approvals.declared.plans import Mark, Step, carry_out, lines, plan, try_out

__all__ = [
    "Document",
    "FilesRefused",
    "Mark",
    "Run",
    "Step",
    "carry_out",
    "lines",
    "plan",
    "read",
    "text_of",
    "try_out",
]
