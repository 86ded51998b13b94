"""What looks like a secret: everybody who may read a bus reads it for ever."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ledger import intents

# The forms in which issuers themselves mark their secrets, so that they can be found.
KINDS = {
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "token of Assent": r"\bassent_[A-Za-z0-9_-]{20,}",
    "token of GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40,})",
    "token of GitLab": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "token of Slack": r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    "key of AWS": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "key of Stripe": r"\b[rs]k_live_[A-Za-z0-9]{16,}",
    "key of OpenAI or Anthropic": r"\bsk-(?:proj-|ant-)[A-Za-z0-9_-]{20,}",
    "key of Google": r"\bAIza[A-Za-z0-9_-]{35}\b",
    "JSON web token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
}
FORMS = {kind: re.compile(form) for kind, form in KINDS.items()}


def first(values: Iterable[Any], contents: Iterable[bytes] = ()) -> str | None:
    """Which kind of secret is in the texts of the JSON values, or in the files; else ``None``."""
    for value in values:
        for text in intents.texts_in(value):
            if (kind := _kind_in(text)) is not None:
                return kind
    for content in contents:
        if (kind := _kind_in(content.decode(errors="replace"))) is not None:
            return kind
    return None


def _kind_in(text: str) -> str | None:
    return next((kind for kind, form in FORMS.items() if form.search(text)), None)
