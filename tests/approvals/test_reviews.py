"""People review a sample of what supervising agents decided."""

from __future__ import annotations

import json
import re

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from approvals import metrics
from approvals.desk.inbox import checks
from approvals.web.item import reviews as reviews_page
from ledger import principals
from ledger.errors import NotPossible
from ledger.models import Agent, Decision, Event, Review, ReviewVerdict, Transaction
from ledger.proof.audit import verification
from ledger.states import State
from ledger.transactions import coordinator
from ledger.transactions.reviews import is_in_sample
from tests.conftest import propose

pytestmark = pytest.mark.django_db


@pytest.fixture
def boss(supervisor, agent_client):
    Agent.objects.filter(pk=supervisor.pk).update(review_percent=100)
    return agent_client(supervisor, ["decide"])


def decide(client, verb="approve", item="chair", **body):
    row = propose("order", item=item)
    body = {"intent_digest": row.intent_digest, "reason": "A <b>chair</b>."} | body
    assert client.post(f"/transactions/{row.pk}/{verb}", body).status_code == 200
    return row


def send(client, review, verdict="agree", reason=""):
    return client.post(f"/reviews/{review.pk}", {"verdict": verdict, "reason": reason})


def test_the_sample_is_what_the_sealed_hash_says(boss, supervisor):
    Agent.objects.filter(pk=supervisor.pk).update(review_percent=50)
    for number in range(12):
        decide(boss, item=f"chair {number}")

    approvals = Event.objects.filter(kind="approved")
    expected = {event.subject for event in approvals if int(event.hash[:8], 16) % 100 < 50}
    assert {json.loads(event.details)["review_percent"] for event in approvals} == {50}
    assert set(Review.objects.values_list("decision__transaction_id", flat=True)) == expected


@pytest.mark.parametrize(("percent", "share"), [(0, 0), (10, 10), (100, 100)])
def test_the_share_of_the_sample_is_the_percentage(percent, share):
    hashes = [f"{number:08x}" + "0" * 56 for number in range(1_000)]

    assert sum(is_in_sample(each, percent) for each in hashes) == share * 10


def test_what_people_decide_or_a_supervisor_passes_on_is_not_reviewed(boss, as_alice):
    decide(boss, "pass-on")
    row = propose("order", item="table")
    as_alice.post(
        f"/transactions/{row.pk}/approve", {"digest": row.intent_digest, "typed": "table"}
    )

    assert Transaction.objects.get(pk=row.pk).state == State.APPROVED
    assert not Review.objects.exists()


def test_a_person_agrees_and_it_is_sealed(boss, as_alice, alice):
    row = decide(boss)
    review = Review.objects.get()
    page = as_alice.get("/reviews/").content.decode()

    answer = send(as_alice, review)
    again = send(as_alice, review)

    assert "A &lt;b&gt;chair&lt;/b&gt;." in page
    assert (answer.status_code, again.status_code) == (302, 302)
    event = row.events.get(kind="decision_reviewed")
    assert event.principal == str(alice)
    assert json.loads(event.details) == {
        "review": "agree",
        "decision_by": "agent:acme/supervisor",
        "sets": {},
    }
    assert Transaction.objects.get(pk=row.pk).state == State.APPROVED
    verification.verify()


def test_having_decided_otherwise_takes_a_reason(boss, as_alice):
    decide(boss)
    review = Review.objects.get()

    without = send(as_alice, review, "otherwise")
    with_one = send(as_alice, review, "otherwise", "Chairs need a second look.")

    assert (without.status_code, with_one.status_code) == (422, 302)
    assert Event.objects.get(kind="decision_reviewed").reason == "Chairs need a second look."


def test_a_second_reviewer_is_told_that_it_was_reviewed(boss, as_alice, as_bob):
    decide(boss)
    review = Review.objects.get()
    send(as_alice, review)

    answer = send(as_bob, review, "otherwise", "No.")

    assert answer.status_code == 409
    assert "Alice Moreau has reviewed it" in answer.content.decode()
    assert Event.objects.filter(kind="decision_reviewed").count() == 1


@pytest.mark.parametrize("keeps", ["supervisor", "helpdesk"])
def test_who_keeps_the_supervisor_or_the_proposer_does_not_review(
    boss, helpdesk, as_alice, alice, as_bob, keeps
):
    Agent.objects.update(kept_by="user:0")
    Agent.objects.filter(slug=keeps).update(kept_by=str(alice))
    decide(boss)
    review = Review.objects.get()

    assert "You keep one of its agents" in as_alice.get("/reviews/").content.decode()
    assert send(as_alice, review).status_code == 403
    assert send(as_bob, review).status_code == 302


def test_what_others_may_still_decide_on_is_not_reviewed_yet(boss, as_alice):
    row = propose("furnish", room="lobby")
    body = {"intent_digest": row.intent_digest, "reason": "Half of the quorum."}
    assert boss.post(f"/transactions/{row.pk}/approve", body).json()["status"] == "prepared"
    review = Review.objects.get()

    page = as_alice.get("/reviews/").content.decode()
    answer = send(as_alice, review)

    assert "Half of the quorum." not in page
    assert answer.status_code == 403
    assert "It is not decided yet" in answer.content.decode()
    by = {"by": principals.user(1, "Ana"), "via": "web", "reason": ""}
    with pytest.raises(NotPossible, match="not decided yet"):
        coordinator.review(review.pk, ReviewVerdict.AGREE, **by)


def test_what_was_erased_is_not_reviewed_and_counts_as_lapsed(boss, as_alice, as_olga):
    row = decide(boss, "reject")
    review = Review.objects.get()
    # Erased after the page was shown; the columns themselves are of no matter here.
    Transaction.objects.filter(pk=row.pk).update(content_erased_at=Now())

    answer = send(as_alice, review)

    assert answer.status_code == 409
    assert "nothing left to review" in answer.content.decode()
    assert "1 erased before anybody reviewed" in as_olga.get("/ops/").content.decode()
    figures = metrics.gathered()["assent_supervisor_reviews"]
    of_boss = {"agent": "agent:acme/supervisor"}
    assert [figures.of(**of_boss, verdict=each) for each in ("waiting", "lapsed")] == [0, 1]


def test_the_oldest_come_first_and_every_page_is_reached(boss, as_alice, monkeypatch):
    monkeypatch.setattr(reviews_page, "SHOWN", 2)
    for number in range(3):
        decide(boss, item=f"chair {number}")
    first, second, third = Review.objects.order_by("pk")

    page = as_alice.get("/reviews/").content.decode()
    later = as_alice.get(f"/reviews/?after={second.pk}").content.decode()
    answer = as_alice.post(f"/reviews/{third.pk}?after={second.pk}", {"verdict": "agree"})

    shown = [f'id="review-{each.pk}"' in page for each in (first, second, third)]
    assert shown == [True, True, False]
    assert f"?after={second.pk}" in page
    assert f'id="review-{third.pk}"' in later
    assert f'id="review-{first.pk}"' not in later
    assert answer.headers["Location"] == f"/reviews/?after={second.pk}"


def test_only_approvers_of_the_tenant_review(boss, as_vera, as_olga, as_carol):
    decide(boss)
    review = Review.objects.get()

    assert [send(client, review).status_code for client in (as_vera, as_olga)] == [403, 403]
    assert send(as_carol, review).status_code == 404
    assert "chair" not in as_carol.get("/reviews/").content.decode()


def test_the_agreement_is_on_operations_and_in_the_metrics(boss, as_alice, as_olga):
    for number in range(4):
        decide(boss, item=f"chair {number}")
    for number, review in enumerate(Review.objects.order_by("pk")[:3]):
        send(as_alice, review, *(("otherwise", "No.") if number == 0 else ()))

    page = as_olga.get("/ops/").content.decode()

    assert "67 %" in page
    figures = metrics.gathered()["assent_supervisor_reviews"]
    agent = "agent:acme/supervisor"
    assert [
        figures.of(agent=agent, verdict=verdict) for verdict in ("agree", "otherwise", "waiting")
    ] == [2, 1, 1]


def test_only_those_who_may_review_are_told_how_many_wait(
    boss, as_alice, as_vera, as_olga, as_carol, monkeypatch
):
    for number in range(3):
        decide(boss, item=f"chair {number}")

    def listed(client):
        """The number in the group of the inbox; it counts in the badge, too."""
        answer = client.get("/")
        group = re.search(r'id="group-samples".*?<span>(\d+)</span>', answer.content.decode())
        return int(str(answer.context["waiting_count"])), group and int(group[1])

    assert listed(as_alice) == (3, 3)
    assert [listed(client) for client in (as_vera, as_olga, as_carol)] == [(0, None)] * 3
    monkeypatch.setattr(checks, "MOST_REVIEWS", 2)
    assert listed(as_alice) == (2, 2)


def test_the_page_without_anything_to_review_says_so(as_alice, alice_user: User):
    assert "Nothing waits for a review" in as_alice.get("/reviews/").content.decode()
    assert not Decision.objects.exists()
