"""Schemathesis over the OpenAPI document: whatever is sent, nothing surfaces as a 500."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from approvals.wsgi import application
from ledger.models import AgentToken

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)


@pytest.fixture
def token(helpdesk):
    return AgentToken.issue(helpdesk, scopes=["propose", "read_all", "decide"])[1]


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_no_request_makes_it_fail(case, token):
    if case.query:
        case.query.pop("wait", None)
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}

    answer = case.call()

    assert answer.status_code < 500 or answer.json().get("code") in {"plan_failed", "tool_failed"}
    if answer.status_code >= 400:
        assert answer.headers["content-type"][0].startswith("application/problem+json")
