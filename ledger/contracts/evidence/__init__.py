"""Evidence that a plan carries: what the approver reads or looks at beside the summary.

    return Plan(
        "Pay invoice 2042",
        evidence=[
            Text("Letter", "Please pay within a week."),
            Table("Lines", ["item", "price"], [["Lamp", "48.20"]]),
            Difference("Contract", before, after),
            File("invoice.pdf", "application/pdf", content),
        ],
    )

The intent digest covers the name, the media type and the SHA-256 of each (``seal``).
"""

from __future__ import annotations

from ledger.contracts.evidence.json_form import from_json
from ledger.contracts.evidence.kinds import (
    DIFFERENCE,
    TABLE,
    TEXT,
    Difference,
    Evidence,
    File,
    Table,
    Text,
    seal,
)
from ledger.contracts.evidence.media_types import EXTENSIONS, PDF, media_type_of

__all__ = [
    "DIFFERENCE",
    "EXTENSIONS",
    "PDF",
    "TABLE",
    "TEXT",
    "Difference",
    "Evidence",
    "File",
    "Table",
    "Text",
    "from_json",
    "media_type_of",
    "seal",
]
