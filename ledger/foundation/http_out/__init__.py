"""HTTP to addresses that others gave us: checked, with deadlines, over kept connections."""

from __future__ import annotations

from ledger.foundation.http_out.kept_connections import Connections
from ledger.foundation.http_out.safe_http import (
    AddressRefused,
    AnswerRefused,
    Credentials,
    CredentialUnusable,
    NotAccepted,
    Post,
    SafeTransport,
    Silent,
    check_form,
    client,
    deliver,
    is_allowed,
    parse,
    post,
    send,
)

__all__ = [
    "AddressRefused",
    "AnswerRefused",
    "Connections",
    "CredentialUnusable",
    "Credentials",
    "NotAccepted",
    "Post",
    "SafeTransport",
    "Silent",
    "check_form",
    "client",
    "deliver",
    "is_allowed",
    "parse",
    "post",
    "send",
]
