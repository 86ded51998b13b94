"""Detection of what looks like a secret: whoever may read a bus reads it for ever."""

from __future__ import annotations

import re
from collections.abc import Iterable

# The forms in which issuers themselves mark their secrets, so that they can be found; before each a
# text that is always in it, because that is looked for a hundred times as fast.
KINDS = {
    "private key": ("PRIVATE KEY-----", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "token of Assent": ("assent_", r"\bassent_[A-Za-z0-9_-]{20,}"),
    "token of GitHub": ("gh", r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40,})"),
    "token of GitLab": ("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    "token of Slack": ("xox", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    "key of AWS": ("IA", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "key of Stripe": ("k_live_", r"\b[rs]k_live_[A-Za-z0-9]{16,}"),
    "key of OpenAI or Anthropic": ("sk-", r"\bsk-(?:proj-|ant-)[A-Za-z0-9_-]{20,}"),
    "key of Google": ("AIza", r"\bAIza[A-Za-z0-9_-]{35}\b"),
    "JSON web token": (
        "eyJ",
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    ),
}
FORMS = {
    kind: (marker.encode(), re.compile(form.encode())) for kind, (marker, form) in KINDS.items()
}


def first_secret(contents: Iterable[bytes]) -> str | None:
    """The kind of secret that is in the files; ``None`` if there is none that shows itself."""
    for content in contents:
        for kind, (marker, form) in FORMS.items():
            if marker in content and form.search(content):
                return kind
    return None
