"""Tools that the proposing agent carries out itself, and the permits that it gets for that.

A permit is a signed JWT (docs/permits.md) that others verify offline. Nothing here reads the
database; who gets a permit, and that it is redeemed once, is the business of ``ledger.execution``.
"""

from __future__ import annotations

from ledger.tools.permits.tokens import (
    LONGEST_S,
    TYPE,
    NoPermitKey,
    PermitRefused,
    kid_of,
    public_keys,
    signed,
    verified,
)
from ledger.tools.permits.tool import PermitTool

__all__ = [
    "LONGEST_S",
    "TYPE",
    "NoPermitKey",
    "PermitRefused",
    "PermitTool",
    "kid_of",
    "public_keys",
    "signed",
    "verified",
]
