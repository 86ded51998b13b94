"""The pictures of the documentation: `make pictures` takes them anew, of a scene of their own."""

from __future__ import annotations

import os
import re
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import expect

from a2a.tasks import questions
from tests.processes import ROOT

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user"),
    pytest.mark.skipif("PICTURES" not in os.environ, reason="`make pictures` takes them"),
]
FOLDER = ROOT / "docs" / "img"
LARGEST = 220 * 1024  # bytes
DESKTOP, PHONE = {"width": 1360, "height": 860}, {"width": 390, "height": 780}
PROPOSALS = (
    ("refund_customer", {"payment_id": "pay_1042", "amount": "48.20", "reason": "damaged"},
     "Ana Ruiz sent photos of a broken lamp. Up to €50 we refund without a return."),
    ("refund_customer", {"payment_id": "pay_2003", "amount": "12.50", "reason": "late"},
     "The parcel came nine days late."),
    ("refund_customer", {"payment_id": "pay_3360", "amount": "20.00", "reason": "delay"},
     "The customer waited an hour on the telephone."),
    ("terminate_cloud_instance", {"instance_id": "i-4a1b", "reason": "idle"},
     "No request for 30 days, and its owner has left the company."),
)  # fmt: skip


@pytest.fixture
def scene(product, token, a_claimed_task, worker):
    """What waits in the pictures; the ids in the order of ``PROPOSALS``, then the question's."""
    ids = []
    for tool, arguments, reason in PROPOSALS:
        answer = httpx.post(
            f"{product.url}/api/v1/transactions",
            json={"tool": tool, "arguments": arguments, "reason": reason},
            headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid4().hex},
            timeout=30,
        )
        assert answer.status_code == 201, answer.text
        ids.append(answer.json()["transaction_id"])
    task = a_claimed_task()
    questions.ask(
        task.pk,
        agent=worker.principal,
        fencing_token=task.fencing_token,
        text="The transcripts disagree about the launch date. Which is right?",
        form={"type": "string", "title": "Launch date", "enum": ["3 May", "5 May"]},
        evidence=[{"text": "Chiara: Remember, the launch date is 5 May."}],
        via="api",
    )
    return [*ids, task.pk]


def test_the_pictures_are_taken_and_small(desk_of, scene):
    refund, *_, end, question = scene
    light = desk_of("alice", viewport=DESKTOP, color_scheme="light", reduced_motion="reduce")
    if light.get_by_role("button", name="Not now").count():
        light.get_by_role("button", name="Not now").click()
    take(light, "desk-light", f"#row-{refund}")
    take(light, "question", f"#row-{question}")
    light.locator(f"#row-{end} a").click()
    expect(light.locator(f"[data-item='{end}']")).to_be_visible()
    light.get_by_role("button", name=re.compile("^Approve")).first.click()
    expect(light.get_by_role("dialog")).to_be_visible()
    picture(light, "confirmation")
    dark = desk_of("alice", viewport=DESKTOP, color_scheme="dark", reduced_motion="reduce")
    take(dark, "desk-dark", f"#row-{refund}")
    phone = desk_of("alice", viewport=PHONE, color_scheme="light", reduced_motion="reduce")
    expect(phone.locator(f"#row-{refund}")).to_be_visible()
    picture(phone, "phone-list")
    phone.locator(f"#row-{refund} a").click()
    expect(phone.locator(f"[data-item='{refund}']")).to_be_visible()
    picture(phone, "phone-item")

    sizes = {file.name: file.stat().st_size for file in FOLDER.glob("*.png")}
    assert len(sizes) == 6
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def take(page, name, row):
    """The inbox with this row open."""
    page.locator(f"{row} a").click()
    expect(page.locator("#item [data-item]")).to_have_attribute("data-item", row[5:])
    picture(page, name)


def picture(page, name):
    page.mouse.move(0, 0)
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")
