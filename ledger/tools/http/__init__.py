"""Tools that run elsewhere, over HTTP: the protocol that they speak.

The owner's side serves ``POST {address}/plan | commit | rollback | compensate`` and
``GET {address}/operations/{operation_key}`` (docs/http-tools.md). Nothing here reads the database.
"""

from __future__ import annotations

from ledger.tools.http.tool import HttpTool

__all__ = ["HttpTool"]
