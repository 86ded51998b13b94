"""Tools that run elsewhere, over HTTP: the protocol that they speak.

The owner's side serves ``POST {address}/plan | commit | rollback | compensate`` and
``GET {address}/operations/{operation_key}`` (docs/http-tools.md). Nothing here reads the database.
"""

from __future__ import annotations

from ledger.tools.http.answers import CONFLICT, NOTHING_HAPPENED, Answer, NotProved, object_in
from ledger.tools.http.exchange import LARGEST_ANSWER
from ledger.tools.http.signing import sign_as_webhook, sign_with
from ledger.tools.http.tool import HttpTool

__all__ = [
    "CONFLICT",
    "LARGEST_ANSWER",
    "NOTHING_HAPPENED",
    "Answer",
    "HttpTool",
    "NotProved",
    "object_in",
    "sign_as_webhook",
    "sign_with",
]
