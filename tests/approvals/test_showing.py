"""As shown: what a surface has not shown in full, nobody decides there."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse

from approvals.desk import decisions
from approvals.presentation import full_display
from ledger import contracts
from ledger.models import Transaction
from tests.conftest import propose


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool whose every argument an agent writes."""

    def mail(to: str, body: str, extra: dict[str, Any] | None = None) -> dict[str, str]:
        return {"receipt_id": "1"}

    contract = replace(contracts.tools["pay"].contract, operation_key="mail:{tenant}:{to}")
    tool = contracts.Tool(mail, contract)

    @tool.plan
    def plan(to: str, body: str) -> contracts.Plan:
        return contracts.Plan(f"Mail to {to}", amount=Decimal("1.00"), currency="EUR")

    monkeypatch.setitem(contracts.tools, "mail", tool)


def page(client: Any, row: Transaction, query: str = "") -> str:
    return client.get(reverse("desk:transaction", args=[row.pk]) + query).content.decode()


def approve(client: Any, row: Transaction, **said: str) -> Any:
    address = reverse("desk:transaction-approve", args=[row.pk])
    return client.post(
        address, {"digest": row.intent_digest, **said}, headers={"HX-Request": "true"}
    )


def state_of(row: Transaction) -> str:
    row.refresh_from_db()
    return str(row.state)


LONG = {
    "a long text": {"body": "x" * 2900 + " and a bcc to mallory@evil.example"},
    "many lines": {"body": "\n" * 40 + "bcc: mallory@evil.example"},
    "a list of 200": {"body": "hi", "extra": {"bcc": [f"m{n}@evil.example" for n in range(200)]}},
    "many fields": {"body": "hi", "extra": {f"field {n}": "x" * 300 for n in range(70)}},
    "a long name": {"body": "hi", "extra": {"k" * 5000: "mallory@evil.example"}},
    "much together": {"body": "hi", "extra": {f"f{n}": "y" * 1100 for n in range(15)}},
}


@pytest.mark.parametrize("what", LONG)
def test_what_is_folded_cannot_be_approved_before_it_is_shown(what, as_alice, mail, acme):
    row = propose("mail", to="ana@example.com", **LONG[what])

    folded = page(as_alice, row)
    assert "Show everything" in " ".join(folded.split())
    assert "data-approve" not in folded
    answer = approve(as_alice, row)

    assert answer.status_code == 409
    assert "was not shown in full" in answer.content.decode()
    assert state_of(row) == "prepared"


@pytest.mark.parametrize("what", LONG)
def test_the_unfolded_page_shows_all_of_it_and_can_be_approved(what, as_alice, mail, acme):
    row = propose("mail", to="ana@example.com", **LONG[what])

    whole = page(as_alice, row, "?whole=1")
    for leaf in _leaves(row.arguments):
        assert leaf in whole
    answer = approve(as_alice, row, shown=_proof_in(whole))

    assert answer.status_code == 200
    assert state_of(row) == "approved"


def test_the_proof_of_one_person_or_of_another_row_is_none(as_alice, as_bob, mail, acme):
    row = propose("mail", to="ana@example.com", body="x" * 2900)
    other = propose("mail", to="bea@example.com", body="x" * 2900)

    for proof in (
        _proof_in(page(as_bob, row, "?whole=1")),
        _proof_in(page(as_alice, other, "?whole=1")),
        "",
        "0" * 64,
    ):
        assert approve(as_alice, row, shown=proof).status_code == 409
    assert state_of(row) == "prepared"


def test_a_short_row_is_approved_as_it_is_opened(as_alice, mail, acme):
    row = propose("mail", to="ana@example.com", body="Hello.")

    assert "data-approve" in page(as_alice, row)
    assert approve(as_alice, row).status_code == 200


def test_no_needs_no_reading_to_the_end(as_alice, mail, acme):
    row = propose("mail", to="ana@example.com", body="x" * 2900)

    as_alice.post(
        reverse("desk:transaction-reject", args=[row.pk]),
        {"digest": row.intent_digest, "reason": "Too long."},
    )

    assert state_of(row) == "rolling_back"


@pytest.mark.parametrize("surface", ["list", "bulk", "email", "push", "anything"])
def test_a_surface_that_nobody_described_shows_nothing(surface, alice_user, mail, acme):
    row = propose("mail", to="ana@example.com", body="Hello.")

    assert full_display.coverage(row, surface).missing == ("everything",)
    with pytest.raises(full_display.NotShownInFull):
        decisions.approve(alice_user, row.pk, digest=row.intent_digest, via=surface)
    with pytest.raises(full_display.NotShownInFull):
        decisions.reject(alice_user, row.pk, digest=row.intent_digest, via=surface, reason="no")
    assert state_of(row) == "prepared"


def test_a_refused_click_does_not_fold_the_page_again(as_alice, mail, acme):
    row = propose("mail", to="ana@example.com", body="x" * 2900)
    whole = page(as_alice, row, "?whole=1")
    address = reverse("desk:transaction-approve", args=[row.pk]) + "?whole=1"
    assert address in whole

    said = {"digest": "0" * 64, "shown": _proof_in(whole)}
    answer = as_alice.post(address, said, headers={"HX-Request": "true"})

    assert answer.status_code == 409
    assert "Show everything" not in " ".join(answer.content.decode().split())


def test_every_value_has_a_line_of_its_own_and_its_path(as_alice, mail, acme):
    extra = {"lines": [{"price": 5, "tags": []}, {"price": None}], "a.b": {"": "x"}}
    row = propose("mail", to="ana@example.com", body="hi", extra=extra)

    shown = page(as_alice, row)

    for path in ("lines[0].price", "lines[0].tags", "lines[1].price"):
        assert f">{path}<" in shown
    assert ">[&quot;a.b&quot;][&quot;&quot;]<" in shown


def _leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for name, item in value.items() for leaf in (name, *_leaves(item))]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [str(value)] if value is not None else []


def _proof_in(html: str) -> str:
    return html.partition('name="shown" value="')[2].partition('"')[0]


def test_a_refusal_of_what_was_made_up_stands_in_the_history(as_alice, acme):
    from ledger.errors import PlanRefused

    with pytest.raises(PlanRefused):
        propose("pay", reference="unknown")

    page = reverse("desk:history")
    assert "There is no such payment." in as_alice.get(f"{page}?state=ended").content.decode()
    assert "There is no such payment." not in as_alice.get(page).content.decode()


# --- what pages and exports give away -------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "=1",
        "+1",
        "-1",
        "@x",
        "\t=1",
        "\r=1",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff201",
        "paid;=cmd()",
        'paid;"=cmd()',
        "a\n=1",
        "a\t\uff1d1",
    ],
)
def test_no_cell_of_an_export_begins_with_a_formula(text):
    from approvals.web.record.history import harmless

    cells = re.split(r"[;\t\r\n]", harmless(text))

    assert not [
        cell
        for cell in cells
        if re.match("[\"' ]*[=+\\-@\uff1d\uff0b\uff0d\uff20]", cell) and "'" not in cell
    ]


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://bank.example/receipts/1", "bank.example"),
        ("https://bank.example@evil.example/", ""),
        ("https://user:word@evil.example/", ""),
        ("https://bank.example\\@evil.example/", ""),
        ("https://bank.example\t.evil.example/", ""),
        ("javascript:alert(1)", ""),
        ("https://b\u0430nk.example/", "xn--bnk-6cd.example"),
    ],
)
def test_a_link_says_where_it_leads_or_is_none(address, host):
    from approvals.templatetags import desk

    assert desk.is_web_address(address) is bool(host)
    assert desk.host_of(address) == host


@pytest.mark.parametrize(
    "address", ["/", "/history/", "/history/export.csv", "/admin/", "/sign-in/"]
)
def test_no_page_is_cached(as_alice, address):
    assert "no-store" in as_alice.get(address)["Cache-Control"]


def test_the_error_page_prints_no_address_with_a_password(rf, settings, monkeypatch):
    from django.views.debug import ExceptionReporter, get_exception_reporter_filter

    monkeypatch.setenv("DATABASE_URL", "postgresql://assent:hunter2@db/assent")
    request = rf.get(
        "/",
        DATABASE_URL="postgresql://assent:hunter2@db/assent",
        ANY_NAME="redis://:hunter2@redis/0",
    )
    settings.DATABASE_URL = settings.WHATEVER = "postgresql://assent:hunter2@db/assent"
    try:
        url = "postgresql://assent:hunter2@db/assent"
        raise RuntimeError(f"{len(url)}")
    except RuntimeError as failure:
        reporter = ExceptionReporter(request, type(failure), failure, failure.__traceback__)
        page = reporter.get_traceback_html()

    shown = get_exception_reporter_filter(request).get_safe_settings()
    assert "hunter2" not in str(shown)
    assert "hunter2" not in re.sub(
        r'<pre class="context".*?</ol>|<ol.*?</ol>', "", page, flags=re.S
    )
