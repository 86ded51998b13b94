"""The preview of a draft: counted part by part, listed, watched on what comes."""

from __future__ import annotations

import re

import pytest

from ledger.models import Transaction
from ledger.sign_off.rules import preview, sets
from tests.rules.conftest import LARGE_TAKE_TWO, NO_LAUNCH, SMALL_PASS
from tests.rules.test_pages import PAGE, seen, text_of

pytestmark = pytest.mark.django_db


def parts(person, days: int):
    """Every part in turn, as the page asks for them."""
    address = f"{PAGE}preview/next?days={days}&seen={seen()}"
    while address:
        answer = person.get(address)
        yield answer
        found = re.search(r'hx-get="([^"]+)"', answer.content.decode())
        address = found[1].replace("&amp;", "&") if found else ""


@pytest.fixture
def history(a_transaction) -> list[Transaction]:
    amounts = ["10", "20", "49.99", "50", "2000"]
    return [a_transaction("refund", order=f"o{each}", amount=each) for each in amounts]


def test_the_parts_carry_their_counts_to_the_end(as_alice, history, olga, monkeypatch):
    monkeypatch.setattr(preview, "PAGE", 2)
    monkeypatch.setattr(preview.preview, "__kwdefaults__", {"after": None, "most": 2})
    sets.edit("acme", [SMALL_PASS, LARGE_TAKE_TWO], seen="", by=olga)

    answers = list(parts(as_alice, 7))
    page = text_of(answers[-1])

    assert len(answers) == 3
    assert "2 of 5 judged" in text_of(answers[0])
    assert "5 proposals judged." in page
    assert "would pass 3" in page
    assert "would ask more, or others 1" in page
    listed = " ".join(text_of(answer) for answer in answers)
    assert listed.count("a person → nobody") == 3
    assert "a person → signed by 2 people" in listed
    assert 'target="_blank"' in answers[0].content.decode()


def test_a_draft_that_changes_meanwhile_ends_the_preview(as_olga, history, olga):
    draft = sets.edit("acme", [SMALL_PASS], seen="", by=olga)
    address = f"{PAGE}preview/next?days=7&seen={draft.sha256}"
    sets.edit("acme", [NO_LAUNCH], seen=draft.sha256, by=olga)

    assert "The draft was changed meanwhile" in text_of(as_olga.get(address))
    assert as_olga.get(f"{PAGE}preview/next?days=8&seen=x").status_code == 404


def test_nothing_is_previewed_without_a_draft(as_olga, acme):
    assert as_olga.get(f"{PAGE}preview/")["Location"] == PAGE
    assert as_olga.get(f"{PAGE}preview/", follow=True).status_code == 200


def test_items_say_what_the_draft_in_preview_would_ask(
    as_olga, as_alice, history, olga, a_transaction
):
    sets.edit("acme", [SMALL_PASS], seen="", by=olga)
    small, large = (f"/transactions/{row.pk}/" for row in (history[0], history[-1]))
    assert "In the rules in preview" not in text_of(as_alice.get(small))

    as_olga.post(f"{PAGE}preview/start", {"seen": seen()})
    a_transaction("refund", order="later", amount="30")

    assert "In the rules in preview: nobody has to sign." in text_of(as_alice.get(small))
    assert "In the rules in preview" not in text_of(as_alice.get(large))
    assert "Draft, in preview" in text_of(as_alice.get(PAGE))
    [since] = parts(as_alice, 0)
    assert "would pass 1" in text_of(since)
    assert "1 proposal judged." in text_of(since)
    assert Transaction.objects.filter(state="prepared").count() == 6
