"""Evidence from a tool over HTTP, and what Slack makes of it."""

from __future__ import annotations

import base64

import pytest

from ledger.contracts.evidence import File, Text
from ledger.errors import PlanFailed
from ledger.models import Evidence, Transaction, contents_of
from tests.conftest import propose
from tests.evidence.conftest import EACH_KIND
from tests.evidence.files import PDF, SVG, png
from tests.evidence.test_kinds import AS_JSON, MIB
from tests.fake_slack import FakeSlack
from tests.http_tools.conftest import registered, service  # noqa: F401  (fixtures)
from tests.slack.conftest import (  # noqa: F401  (fixtures)
    buttons_of,
    only_message,
    settle,
    slack,
    team,
    workspace,
)

pytestmark = pytest.mark.django_db(transaction=True)


def answer_plan(of, *evidence):
    of.answers["plan"] = (200, {"plan": {"summary": "Refund it", "evidence": list(evidence)}})


def as_json(name: str, media_type: str, content: bytes):
    encoded = base64.b64encode(content).decode()
    return {"kind": "file", "name": name, "media_type": media_type, "content": encoded}


def test_a_service_sends_evidence_with_its_plan(service, registered):  # noqa: F811
    registered()
    files = [
        as_json("photo.png", "image/png", png()),
        as_json("invoice.pdf", "application/pdf", PDF),
    ]
    answer_plan(service, *AS_JSON, *files)

    row = propose("refund_invoice", invoice="7", amount=48.2)

    assert [piece["name"] for piece in row.evidence] == [piece.name for piece in EACH_KIND]
    assert contents_of(row) == [piece.content() for piece in EACH_KIND]
    assert row.is_untouched


def test_a_service_may_send_as_much_as_a_python_tool(service, registered):  # noqa: F811
    registered()
    large = PDF + bytes(MIB - len(PDF))
    answer_plan(service, *[as_json(f"{n}.pdf", "application/pdf", large) for n in range(4)])

    row = propose("refund_invoice", invoice="7", amount=48.2)

    assert contents_of(row) == [large] * 4


@pytest.mark.parametrize(
    ("piece", "why"),
    [
        (as_json("a.png", "image/png", SVG), "its bytes are not image/png"),
        (as_json("a.html", "text/html", b"<p>"), "a PNG, JPEG, GIF, WebP or PDF"),
        ({"kind": "file", "name": "a", "media_type": "image/png", "content": "%"}, "base64"),
        ({"kind": "text", "name": "a", "text": {"b": "c"}}, "valid string"),
        ("a text", "evidence of its plan"),
    ],
)
def test_bad_evidence_of_a_service_is_put_before_nobody(
    piece,
    why,
    service,  # noqa: F811
    registered,  # noqa: F811
):
    registered()
    answer_plan(service, piece)

    with pytest.raises(PlanFailed, match=why):
        propose("refund_invoice", invoice="7", amount=48.2)

    # What the service may hold for it is let go of.
    (row,) = Transaction.objects.all()
    assert (row.ending, row.evidence) == ("abandoned", None)
    assert not Evidence.objects.exists()


@pytest.mark.of_app("approvals.slack")
def test_slack_counts_the_attachments_and_leaves_the_decision_to_the_desk(
    slack,  # noqa: F811
    workspace,  # noqa: F811
    file_it,
):
    file_it(Text("Letter", "Short."), File("invoice.pdf", "application/pdf", PDF))
    settle()

    message = only_message(slack)

    assert "Evidence: 2 attachments, on the desk." in FakeSlack.plain(message)
    assert not {"approve", "reject"} & set(buttons_of(message))
    assert "Decide on the desk" in FakeSlack.plain(message)
