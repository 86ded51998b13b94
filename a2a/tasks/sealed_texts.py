"""What the events of a task seal of its contents: digests of canonical texts."""

from __future__ import annotations

import hashlib
from typing import Any

from ledger.intents import canonical_as_stored


def text_of(value: Any) -> str:
    return canonical_as_stored(value).decode()


def asked(text: str, form: Any, evidence: Any) -> str:
    """What stands before the people who answer a question."""
    return text_of({"text": text, "form": form, "evidence": evidence})


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
