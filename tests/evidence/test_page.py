"""Evidence at the desk: shown in full or folded, served so that nothing in it acts, and fenced."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from approvals.presentation import full_display
from approvals.presentation.evidence import compared
from ledger.contracts.evidence import Difference, File, Table, Text
from ledger.models import Transaction
from tests.evidence.conftest import EACH_KIND
from tests.evidence.files import HTML, PDF, SVG, png
from tests.forgery import forge

LONG = {
    "a text": Text("Letter", "x" * 3000 + " the end"),
    "a table": Table("Lines", ["item"], [[f"item {n}"] for n in range(60)] + [["the end"]]),
    "a difference": Difference(
        "Contract", "a\n" * 60, "".join(f"line {n}\n" for n in range(60)) + "the end"
    ),
}


def page(client: Client, row: Transaction, query: str = "") -> str:
    address = reverse("desk:transaction", args=[row.pk]) + query
    return " ".join(client.get(address).content.decode().split())


def approve(client: Client, row: Transaction, **typed: str) -> Any:
    address = reverse("desk:transaction-approve", args=[row.pk])
    return client.post(
        address, {"digest": row.intent_digest, **typed}, headers={"HX-Request": "true"}
    )


def fetch(client: Client, row: Transaction, number: int) -> Any:
    return client.get(reverse("desk:transaction-evidence", args=[row.pk, number]))


def proof_in(text: str) -> str:
    found = re.search(r'name="shown" value="([^"]+)"', text)
    return found[1] if found else ""


def state_of(row: Transaction) -> str:
    row.refresh_from_db()
    return str(row.state)


def test_the_page_shows_each_kind_and_escapes_it(as_alice, file_it):
    row = file_it(
        Text("Le<b>tter", "<script>alert(1)</script>"),
        Table("Lines", ["<i>item"], [["<img src=x>"]]),
        Difference("Contract", "Two <u>years", "Three <u>years"),
        File("photo<p>.png", "image/png", png()),
    )

    shown = page(as_alice, row)

    for raw in ("<script>alert", "<img src=x>", "<i>item", "<u>years", "Le<b>", "photo<p>"):
        assert raw not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert '<del class="line">' in shown
    assert "Three &lt;u&gt;years</span></ins>" in shown
    assert f'<img src="{reverse("desk:transaction-evidence", args=[row.pk, 4])}"' in shown


def test_files_are_served_as_what_they_are_and_as_nothing_that_acts(as_alice, file_it):
    row = file_it(*EACH_KIND)

    picture, pdf = fetch(as_alice, row, 4), fetch(as_alice, row, 5)

    assert (picture.status_code, picture.content) == (200, png())
    assert (pdf.status_code, pdf.content) == (200, PDF)
    assert picture["Content-Type"] == "image/png"
    assert picture["Content-Disposition"] == 'inline; filename="photo.png"'
    assert pdf["Content-Type"] == "application/pdf"
    assert pdf["Content-Disposition"] == 'attachment; filename="invoice.pdf"'
    for answer in (picture, pdf):
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
        assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer["Cache-Control"] == "private, no-store"


def test_texts_have_no_address_and_numbers_end(as_alice, file_it):
    row = file_it(*EACH_KIND)

    assert [fetch(as_alice, row, number).status_code for number in (0, 1, 2, 3, 6, 99)] == [404] * 6


def test_a_file_is_named_by_what_it_is_and_not_by_what_the_tool_calls_it(as_alice, file_it):
    row = file_it(
        File("../invoice.exe", "application/pdf", PDF),
        File('a"; filename="b.html', "application/pdf", PDF),
        File("发票", "application/pdf", PDF),
    )

    names = [fetch(as_alice, row, number)["Content-Disposition"] for number in (1, 2, 3)]

    assert names == [
        'attachment; filename="invoice.pdf"',
        'attachment; filename="a-filenameb.pdf"',
        'attachment; filename="evidence-3.pdf"',
    ]


def test_nobody_of_another_tenant_gets_it(as_carol, as_vera, file_it, client):
    row = file_it(*EACH_KIND)

    assert fetch(as_carol, row, 4).status_code == 404
    assert fetch(client, row, 4).status_code == 302
    assert fetch(as_vera, row, 4).status_code == 200


@pytest.mark.parametrize("content", [SVG, HTML, png(5, 5), b""])
def test_what_was_changed_is_neither_served_nor_shown_nor_approved(content, as_alice, file_it):
    row = file_it(File("photo.png", "image/png", png()))
    forge("UPDATE ledger_evidence SET content = %s", content)

    shown = page(as_alice, row)

    assert fetch(as_alice, row, 1).status_code == 404
    assert "This was changed after it was proposed. Do not sign." in shown
    assert "<img src" not in shown.partition('class="evidence"')[2].partition("</section>")[0]
    assert "data-approve" not in shown
    assert "You can reject it." in shown
    answer = approve(as_alice, row)
    assert answer.status_code == 409
    assert "was changed" in answer.content.decode()
    assert state_of(row) == "prepared"


@pytest.mark.parametrize("what", LONG)
def test_what_is_long_is_folded_and_approved_only_when_it_was_shown(what, as_alice, file_it):
    row = file_it(LONG[what])

    opened = page(as_alice, row)
    assert "the end" not in opened
    assert "Folded: <bdi>the evidence “" in opened
    assert "data-approve" not in opened
    assert approve(as_alice, row).status_code == 409
    assert state_of(row) == "prepared"

    whole = page(as_alice, row, "?whole=1")
    assert "the end" in whole
    assert approve(as_alice, row, shown=proof_in(whole)).status_code == 200
    assert state_of(row) == "approved"


def test_much_evidence_together_is_folded_as_well(as_alice, file_it):
    row = file_it(*(Difference(f"Letter {n}", str(n) * 900, "x" * 900) for n in range(8)))

    assert "Show everything" in page(as_alice, row)
    assert approve(as_alice, row).status_code == 409


def test_short_evidence_is_approved_as_it_is_opened(as_alice, file_it):
    row = file_it(*EACH_KIND[:4])

    assert "data-approve" in page(as_alice, row)
    assert approve(as_alice, row).status_code == 200


def test_a_pdf_is_approved_only_by_who_says_that_it_was_opened(as_alice, file_it):
    row = file_it(*EACH_KIND)

    shown = page(as_alice, row)
    assert "I have opened and read <bdi>invoice.pdf</bdi>." in shown
    refused = approve(as_alice, row, shown=proof_in(shown))
    assert refused.status_code == 409
    assert "You have not said that you opened invoice.pdf." in refused.content.decode()
    assert state_of(row) == "prepared"

    assert approve(as_alice, row, shown=proof_in(shown), opened="1").status_code == 200
    assert state_of(row) == "approved"


def test_an_irreversible_one_asks_in_its_dialog_whether_the_pdf_was_opened(as_alice, file_it):
    row = file_it(*EACH_KIND, consequence_level="IRREVERSIBLE")

    dialog = page(as_alice, row).partition("<dialog")[2].partition("</dialog>")[0]

    assert 'name="opened"' in dialog
    typed = row.action_summary.removeprefix("File ")
    assert approve(as_alice, row, typed=typed).status_code == 409
    assert approve(as_alice, row, typed=typed, opened="1").status_code == 200


def test_no_needs_no_pdf(as_alice, file_it):
    row = file_it(*EACH_KIND)

    as_alice.post(
        reverse("desk:transaction-reject", args=[row.pk]),
        {"digest": row.intent_digest, "reason": "No."},
    )

    assert state_of(row) == "rolling_back"


def test_slack_shows_no_evidence_in_full(file_it):
    row = file_it(Text("Letter", "Short."))

    assert full_display.coverage(row, full_display.DESK).is_complete
    assert full_display.coverage(row, full_display.SLACK).missing == ("the evidence",)


def test_the_record_shows_the_evidence_and_its_digests(as_alice, file_it):
    row = file_it(*EACH_KIND)

    response = as_alice.get(reverse("desk:transaction-record", args=[row.pk]))
    shown = response.content.decode()

    assert "Dear all,\nplease pay." in shown
    for piece in row.evidence:
        assert piece["sha256"] in shown


def test_a_difference_holds_all_lines_of_both_texts():
    before, after = "a\nb\nc", "a\nx\nc\nd"

    lines = compared(before, after)

    assert [text for sign, text in lines if sign != "+"] == before.split("\n")
    assert [text for sign, text in lines if sign in " +"] == after.split("\n")
