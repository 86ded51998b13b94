"""Archives for auditors: the decisions of a period, with everything that proves them."""

from __future__ import annotations

from ledger.proof.archive.contents import NotYetSigned, Period, register_source
from ledger.proof.archive.writing import Archive

__all__ = ["Archive", "NotYetSigned", "Period", "register_source"]
