"""Digests that the events of a task seal: SHA-256 of the canonical JSON of its contents."""

from __future__ import annotations

import hashlib
from typing import Any

from ledger.seals import canonical_as_stored


def text_of(value: Any) -> str:
    """The canonical JSON (RFC 8785) of a stored value."""
    return canonical_as_stored(value).decode()


def question_text(text: str, form: Any, evidence: Any) -> str:
    """The canonical JSON of what the people who answer a question see."""
    return text_of({"text": text, "form": form, "evidence": evidence})


def digest_of(text: str) -> str:
    """SHA-256 of the text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
