"""Confirming and declining a change of an account, as the pages of operators do."""

from __future__ import annotations

from typing import Any

from approvals.people import account_requests_of, principal_of
from ledger.errors import NotFound
from ledger.events import four_eyes
from ledger.models import ChangeRequest


def _request(change_id: int, by: Any) -> ChangeRequest:
    request = account_requests_of(by).filter(pk=change_id).first()
    if request is None:
        raise NotFound(four_eyes.NO_SUCH_CHANGE)
    return request


def confirm_request(change_id: int, *, by: Any, via: str) -> ChangeRequest:
    request = _request(change_id, by)
    four_eyes.confirm(request, seen=request.sha256, by=principal_of(by), via=via)
    return request


def decline_request(change_id: int, *, by: Any, via: str) -> ChangeRequest:
    request = _request(change_id, by)
    four_eyes.decline(request, by=principal_of(by), via=via)
    return request
