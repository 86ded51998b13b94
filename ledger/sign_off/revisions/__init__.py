"""Revisions of a transaction: which one its events left live, who made it, and what it changed.

One is live. What an earlier one was stands in ``Revision``; its intent digest is sealed.
"""

from ledger.sign_off.revisions.chain import REVISED, makers_in, number_in, sealed_last
from ledger.sign_off.revisions.contents import (
    CONTENT,
    Change,
    as_proposed,
    changes_between,
    changes_by,
    changes_of,
    content_of,
    with_content,
)

__all__ = [
    "CONTENT",
    "REVISED",
    "Change",
    "as_proposed",
    "changes_between",
    "changes_by",
    "changes_of",
    "content_of",
    "makers_in",
    "number_in",
    "sealed_last",
    "with_content",
]
