"""A person is an immutable id: names are labels, and never pass to somebody else."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.db.transaction import atomic
from django.urls import reverse

from a2a.models import Question
from a2a.tasks import questions
from approvals.desk import decisions
from approvals.models import Membership, Role
from approvals.people import principal_of
from ledger.errors import InvalidRequest
from ledger.models import Agent
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def ask(a_claimed_task, worker):
    """The question of a worker, of those who are named."""

    def make(*may_answer: str) -> Question:
        task = a_claimed_task()
        return questions.ask(
            task.pk,
            agent=worker.principal,
            fencing_token=task.fencing_token,
            text="Which date is right?",
            may_answer=list(may_answer),
            via="api",
        )

    return make


def test_whoever_is_renamed_is_still_the_same_approver(a_transaction, alice_user, as_olga):
    row = a_transaction("scuttle", rocket="Vega")
    assert row.quorum == 2
    approve = {"digest": row.intent_digest, "via": "web", "typed": "Vega"}
    decisions.approve(alice_user, row.pk, **approve)

    alice_user.username, alice_user.first_name = "alice2", "Alicia"
    alice_user.save()
    after = decisions.approve(alice_user, row.pk, **approve)

    assert after.state == "prepared"
    assert [vote.principal for vote in row.decisions.all()] == [f"user:{alice_user.pk}"]


@pytest.mark.parametrize("name", ["alice", "Alice", "ALICE2"])
def test_a_user_name_is_never_given_to_somebody_else(alice_user, name):
    alice_user.username = "alice2"
    alice_user.save()

    with pytest.raises(IntegrityError, match="is or was somebody else's"), atomic():
        User.objects.create_user(name)


def test_a_name_stays_taken_when_its_account_is_gone(db):
    User.objects.create_user("dora").delete()

    with pytest.raises(IntegrityError, match="is or was somebody else's"), atomic():
        User.objects.create_user("dora")


def test_somebody_may_take_an_old_name_of_theirs_again(alice_user):
    for name in ("alice2", "alice"):
        alice_user.username = name
        alice_user.save()

    assert User.objects.get(username="alice") == alice_user


def test_an_agent_keeps_its_tenant_and_slug_and_is_never_deleted(helpdesk, globex):
    for change in ({"slug": "other"}, {"tenant": globex}):
        with pytest.raises(IntegrityError, match="deactivate it"), atomic():
            Agent.objects.filter(pk=helpdesk.pk).update(**change)
    with pytest.raises(IntegrityError, match="deactivate it"), atomic():
        Agent.objects.filter(pk=helpdesk.pk).delete()

    Agent.objects.filter(pk=helpdesk.pk).update(is_active=False, name="Front desk")


def test_who_is_named_in_a_question_is_kept_by_id_through_a_rename(alice_user, bob_user, ask):
    question = ask("user:alice")
    alice_user.username = "alice2"
    alice_user.save()

    again = ask("user:alice", "user:alice2")

    assert question.may_answer == again.may_answer == [f"user:{alice_user.pk}"]
    page = signed_in(bob_user).get(reverse("desk:question", args=[question.pk])).content.decode()
    assert "It may be answered by: Alice Moreau." in page
    assert "user:" not in page


def test_a_question_for_somebody_who_may_not_answer_is_refused_in_the_same_words(
    alice_user, vera_user, carol_user, bob_user, ask
):
    bob_user.is_active = False
    bob_user.save()
    refusals = set()

    for name in ("nobody", vera_user.username, carol_user.username, bob_user.username):
        with pytest.raises(InvalidRequest) as refusal:
            ask(f"user:{name}")
        refusals.add((refusal.value.detail.replace(name, "…"), refusal.value.hint))

    assert len(refusals) == 1
    assert not Question.objects.exists()


@pytest.mark.parametrize("word", ["viewer", "anybody", "agent:globex/helpdesk", "system:policy"])
def test_a_question_for_nobody_in_particular_is_refused(ask, word):
    with pytest.raises(InvalidRequest):
        ask(word)

    assert not Question.objects.exists()


def test_whoever_is_a_viewer_now_does_not_answer_although_named(alice_user, ask, acme):
    question = ask("user:alice")
    Membership.objects.filter(user=alice_user).update(role=Role.VIEWER)

    answer = signed_in(alice_user).post(
        reverse("desk:question-answer", args=[question.pk]), {"answer": "May 5"}
    )

    assert answer.status_code == 403
    question.refresh_from_db()
    assert question.state == "open"
    assert question.may_answer == [str(principal_of(alice_user))]
