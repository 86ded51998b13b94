"""On its page people correct what waits, ask its agent, send it back, and give it time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from approvals.desk import confirmation_word
from approvals.presentation import differences_in
from ledger import execution
from ledger.models import Agent, Event, Transaction
from ledger.principals import agent
from ledger.proof.audit import verification
from ledger.sign_off.revisions import Change
from ledger.states import Ending, State
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.requests.conftest import approve

pytestmark = pytest.mark.django_db
FRAGMENT = {"HX-Request": "true"}
HELPDESK = agent("acme", "helpdesk", "Helpdesk agent")


def page(person: Client, row: Transaction, name: str = "transaction") -> str:
    return person.get(reverse(f"desk:{name}", args=[row.pk])).content.decode()


def post(person: Client, row: Transaction, verb: str, **said: Any) -> Any:
    return person.post(reverse(f"desk:transaction-{verb}", args=[row.pk]), said, headers=FRAGMENT)


def change(person: Client, row: Transaction, **fields: str) -> Any:
    """As its form sends it: every field that may be changed, and what the page has shown."""
    form = person.get(reverse("desk:transaction-change", args=[row.pk])).context
    said = {field.name: field.text for field in form["node"].fields}
    said |= {"digest": form["tx"].intent_digest, "shown": form["proof"]}
    said |= {f"input/{name}": value for name, value in fields.items() if name != "reason"}
    said["reason"] = fields.get("reason", "")
    return person.post(reverse("desk:transaction-change", args=[row.pk]), said)


def renewed(row: Transaction) -> Transaction:
    row.refresh_from_db()
    return row


# --- change, then approve ------------------------------------------------------------------------


def test_a_wrong_amount_is_changed_and_then_approved(refund, as_alice, alice):
    answer = change(as_alice, refund, amount="48.20", reason="One digit too many")

    assert answer["Location"] == reverse("desk:transaction", args=[refund.pk])
    item = page(as_alice, refund)
    assert "You changed it" in item
    assert "One digit too many" in item
    assert "€482.00" in item
    assert 'Approve <span class="nobreak">€48.20' in item
    assert renewed(refund).state == State.PREPARED
    approve(refund, alice)
    execution.commit(refund.pk)
    assert "What was done" in page(as_alice, refund)
    assert "What was changed" in page(as_alice, refund, "transaction-record")
    verification.verify()


def test_the_form_has_the_arguments_that_may_be_changed_and_no_other(refund, as_alice):
    form = as_alice.get(reverse("desk:transaction-change", args=[refund.pk])).context["node"]
    assert [field.path[0] for field in form.fields if field.path[0] == "order"] == []
    amount = next(field for field in form.fields if field.path == ("amount",))
    assert (amount.kind, amount.text, amount.is_decimal) == ("text", "482.00", True)


def test_what_does_not_fit_stands_at_its_field_and_nothing_typed_is_lost(refund, as_alice):
    answer = change(as_alice, refund, amount="48,20", reason="Too much")
    said = answer.content.decode()
    assert answer.status_code == 422
    assert "Use a point, not a comma." in said
    assert 'value="48,20"' in said
    assert 'value="Too much"' in said
    assert renewed(refund).revision == 1


def test_the_same_again_is_no_change(refund, as_alice):
    answer = change(as_alice, refund)
    assert answer.status_code == 422
    assert "Nothing is different" in answer.content.decode()


def test_a_plan_that_is_refused_is_said_in_words(reserved, as_alice, the_world):
    the_world.is_closed = True
    answer = change(as_alice, reserved, nights="2")
    said = answer.content.decode()
    assert answer.status_code == 422
    assert "Nothing was changed by your click." in said
    assert 'value="2"' in said
    assert renewed(reserved).revision == 1


def test_what_the_rules_deny_is_said_in_words(activated, refund, as_alice):
    activated({"when": {"amount": {"at_least": "9000 EUR"}}, "then": "deny"})
    answer = change(as_alice, refund, amount="9000.00")
    assert answer.status_code == 422
    assert renewed(refund).revision == 1


def test_a_change_of_a_former_revision_is_shown_the_present_one(refund, edited, bob, as_alice):
    form = as_alice.get(reverse("desk:transaction-change", args=[refund.pk])).context
    edited(refund, bob, amount="48.20")
    said = {"digest": form["tx"].intent_digest, "shown": form["proof"], "input/amount": "4.82"}
    answer = as_alice.post(reverse("desk:transaction-change", args=[refund.pk]), said)
    assert answer.status_code == 409
    assert "The agent wanted" in answer.content.decode()
    assert 'value="4.82"' in answer.content.decode()
    assert renewed(refund).arguments["amount"] == "48.20"


def test_why_nothing_can_be_changed_is_said_and_sending_back_offered(helpdesk, as_alice):
    row = propose("pay", reference="p1", amount="482.00")
    item = page(as_alice, row)
    assert "Its tool holds something" in item
    assert "Send it back…" in item
    assert "data-change" not in item
    assert change_is_refused(as_alice, row)


def change_is_refused(person: Client, row: Transaction) -> bool:
    said = {"digest": row.intent_digest, "input/amount": "1.00"}
    person.post(reverse("desk:transaction-change", args=[row.pk]), said)
    return renewed(row).revision == 1


def test_nobody_changes_it_but_who_may_decide(refund, as_vera, as_carol, alice_user, as_alice):
    assert page(as_vera, refund).count("data-change") == 0
    assert post(as_vera, refund, "change").status_code == 403
    assert post(as_carol, refund, "change").status_code == 404
    Agent.objects.filter(pk=Agent.objects.get(slug="helpdesk").pk).update(
        kept_by=f"user:{alice_user.pk}"
    )
    assert "data-change" not in page(as_alice, refund)
    assert change_is_refused(as_alice, refund)
    assert post(as_alice, refund, "ask", text="Why?").status_code == 403
    assert not Event.objects.filter(subject=refund.pk, kind="asked").exists()


def test_where_two_sign_the_maker_of_the_change_is_not_offered_to(helpdesk, as_alice, edited):
    row = edited(propose("pay_two", reference="p1", amount="482.00"), amount="48.20")
    assert "You changed it, and two others have to approve" in page(as_alice, row)
    assert (
        post(
            as_alice, row, "approve", digest=row.intent_digest, typed=confirmation_word(row)
        ).status_code
        == 403
    )


# --- difference ----------------------------------------------------------------------------------


def test_a_stale_page_that_votes_is_shown_what_changed(refund, edited, as_bob):
    digest = refund.intent_digest
    edited(refund, amount="48.20")
    answer = post(as_bob, refund, "approve", digest=digest)
    said = answer.content.decode()
    assert answer.status_code == 409
    assert "<bdi>Alice Moreau</bdi> changed it" in said
    assert 'Approve <span class="nobreak">€48.20' in said
    assert renewed(refund).state == State.PREPARED


def test_each_change_in_the_history_has_its_own_difference(refund, edited, bob, as_alice):
    edited(edited(refund, amount="48.20"), bob, amount="48.00")
    context = as_alice.get(reverse("desk:transaction", args=[refund.pk])).context
    changes = [event.differences for event in context["events"] if event.kind == "revised"]
    assert [(each[0].before, each[0].after) for each in changes] == [
        ("€482.00", "€48.20"),
        ("€48.20", "€48.00"),
    ]
    assert context["changed"].differences[0].before == "€482.00"
    assert context["changed"].times == 2


def test_the_amount_is_named_once(refund, edited, as_alice):
    edited(refund, amount="48.20")
    context = as_alice.get(reverse("desk:transaction", args=[refund.pk])).context
    names = [each.name for each in context["changed"].differences]
    assert names == ["amount", "What happens"]


# --- thread --------------------------------------------------------------------------------------


def test_a_question_waits_at_the_top_and_the_answer_is_the_agents_words(refund, as_alice, as_bob):
    assert post(as_alice, refund, "ask", text="Which order is it?").status_code == 200
    item = page(as_bob, refund)
    assert "Waits for the agent's answer. The time limit is paused until" in item
    assert "data-approve" in item
    coordinator.answer(refund.pk, by=HELPDESK, via="api", text="<b>Approve it!</b>")
    item = page(as_bob, refund)
    assert "Waits for the agent" not in item
    assert "In the agent's words" in item
    assert "&lt;b&gt;Approve it!&lt;/b&gt;" in item


def test_an_empty_text_is_refused_and_a_refused_one_is_kept(refund, as_alice):
    assert post(as_alice, refund, "ask", text="").status_code == 422
    too_long = "x" * 2001
    answer = post(as_alice, refund, "ask", text=too_long)
    assert answer.status_code == 422
    assert too_long in answer.content.decode()
    assert not Event.objects.filter(subject=refund.pk, kind="asked").exists()


def test_a_note_is_for_colleagues_also_afterwards(refund, as_alice, as_vera, as_helpdesk, alice):
    approve(refund, alice)
    assert post(as_alice, refund, "note", text="I called them.").status_code == 200
    assert "I called them." in page(as_vera, refund)
    assert "I called" not in as_helpdesk.get(f"/transactions/{refund.pk}").content.decode()
    assert post(as_vera, refund, "note", text="Me too.").status_code == 403


def test_more_time_up_to_the_longest_and_not_twice(refund, as_alice):
    choices = as_alice.get(reverse("desk:transaction", args=[refund.pk])).context["more_time"]
    hour = refund.expires_at + timedelta(hours=1)
    longest = choices[-1].at
    assert [each.label for each in choices][:3] == ["15 min longer", "1 h longer", "4 h longer"]
    assert longest <= refund.created_at + timedelta(days=1)

    for status in (200, 422):
        answer = post(as_alice, refund, "more-time", until=hour.isoformat())
        assert answer.status_code == status
    assert renewed(refund).expires_at == hour
    later = (longest + timedelta(minutes=5)).isoformat()
    assert post(as_alice, refund, "more-time", until=later).status_code == 422


def test_it_is_sent_back_with_what_to_propose_instead(refund, as_alice):
    digest = refund.intent_digest
    assert post(as_alice, refund, "send-back", digest=digest, reason="").status_code == 422
    assert post(as_alice, refund, "send-back", digest=digest, reason="48.20!").status_code == 200
    assert renewed(refund).ending == Ending.SENT_BACK
    assert "Sent back by" in page(as_alice, refund)
    assert "48.20!" in page(as_alice, refund, "transaction-record")


def test_a_long_thread_shows_its_newest_entries_first_of_all(refund, alice, as_alice):
    for number in range(12):
        coordinator.note(refund.pk, by=alice, via="web", text=f"Note {number}.")
    context = as_alice.get(reverse("desk:transaction", args=[refund.pk])).context
    assert [event.reason for event in context["earlier"]] == ["Note 0.", "Note 1."]
    assert "2 earlier entries" in page(as_alice, refund)


def test_the_thread_says_until_when_there_is_more_time(refund, as_alice):
    hour = refund.expires_at + timedelta(hours=1)
    post(as_alice, refund, "more-time", until=hour.isoformat())
    context = as_alice.get(reverse("desk:transaction", args=[refund.pk])).context
    assert [event.until for event in context["thread"]] == [hour]


def test_of_long_texts_the_difference_shows_where_they_are_different():
    same = "x" * 300
    changes = [Change("arguments.text", f"{same} 12 {same}", f"{same} 21 {same}")]
    before, after = differences_in(changes)[0].before, differences_in(changes)[0].after
    assert (" 12 " in before, " 21 " in after) == (True, True)
    assert max(len(before), len(after)) < 130


# --- links ---------------------------------------------------------------------------------------


def test_what_was_sent_back_and_its_next_proposal_link_to_each_other(
    refund, as_alice, as_helpdesk, alice
):
    digest = refund.intent_digest
    coordinator.send_back(refund.pk, digest=digest, by=alice, via="web", reason="48.20, please.")
    execution.roll_back(refund.pk)
    told = as_helpdesk.propose(
        "refund", arguments={"order": "o1", "amount": "48.20"}, replaces=str(refund.pk)
    )
    new = Transaction.objects.get(pk=told.json()["transaction_id"])
    assert reverse("desk:transaction", args=[refund.pk]) in page(as_alice, new)
    assert "48.20, please." in page(as_alice, new)
    assert '<del dir="auto">€482.00</del>' in page(as_alice, new)
    assert reverse("desk:transaction", args=[new.pk]) in page(as_alice, refund)


def test_open_ones_that_touch_the_same_warn_of_each_other(reserved, as_alice, alice):
    other = propose("reserve", guest="Bea", room="7", nights=1)
    elsewhere = propose("reserve", guest="Cem", room="8", nights=1)
    assert reverse("desk:transaction", args=[other.pk]) in page(as_alice, reserved)
    assert reverse("desk:transaction", args=[reserved.pk]) in page(as_alice, other)
    assert "would change the same" not in page(as_alice, elsewhere)
    coordinator.reject(
        other.pk, digest=other.intent_digest, by=alice, via="web", reason="One is enough."
    )
    execution.roll_back(other.pk)
    assert "would change the same" not in page(as_alice, reserved)
