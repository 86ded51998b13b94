"""Lighthouse, run on the product by `make lighthouse` (bench/lighthouse.py)."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from approvals.models import Membership, Role
from bench.lighthouse import FORMS, audit, signed_in_browser
from tests.conftest import CHROMIUM, signed_in

PLACES = {
    name: f"/{name}/"
    for name in (
        "history", "insight", "changes", "tasks", "tools", "agents", "people", "ops", "account",
    )
}  # fmt: skip
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.timeout(3000),
    pytest.mark.skipif("LIGHTHOUSE" not in os.environ, reason="`make lighthouse` runs it"),
]


def test_lighthouse_reports_on_each_page(product, token, alice_user, acme):
    ids = [propose(product, token, number) for number in range(12)]
    cookie = signed_in(alice_user).cookies["assent_session"]
    out = Path(os.environ["LIGHTHOUSE_OUT"])
    Membership.objects.create(user=alice_user, tenant=acme, role=Role.OPERATOR)
    pages = {"inbox": "/", "item": f"/transactions/{ids[0]}/", **PLACES}

    tool = os.environ["LIGHTHOUSE"]
    with signed_in_browser(product.url, cookie.value, CHROMIUM) as port:
        for form in FORMS:
            for name, path in pages.items():
                audit(tool, product.url + path, port, form, out / f"{name}-{form}.report.json")

    assert len(list(out.glob("*.report.json"))) == len(FORMS) * len(pages)


def propose(product, token, number):
    arguments = {"payment_id": f"pay_{2000 + number}", "amount": "5.00", "reason": "damaged"}
    answer = httpx.post(
        f"{product.url}/api/v1/transactions",
        json={"tool": "refund_customer", "arguments": arguments, "reason": "It is broken."},
        headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid4().hex},
        timeout=30,
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["transaction_id"]
