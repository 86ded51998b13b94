"""People read their language; what machines read and what is sealed is English, whoever asks."""

from __future__ import annotations

import json
import re

import pytest
from django.db.transaction import atomic, set_rollback
from django.urls import reverse
from django.utils import translation

from a2a.doors.git_bus.models import Progress, Wish
from a2a.models import QuestionState
from a2a.states import TaskState
from approvals.models import Preferences
from approvals.presentation import labels, script_texts
from approvals.presentation.sentences import in_words
from ledger.foundation import doorbell
from ledger.models import RequestState, Scope
from ledger.states import Ending, Outcome, State
from tests.a2a.test_protocol import Peer
from tests.authorization.operations import address_of, all_operations, request_of
from tests.authorization.scene import Scene

GERMAN = {"Accept-Language": "de"}
# Ids, digests, tokens, moments and seconds that are left.
PASSING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|assent_[\w-]+|eyJ[\w.-]+|\d+")


def test_a_page_is_in_the_language_of_the_browser(client, db):
    page = client.get("/sign-in/", headers=GERMAN)

    assert page["Content-Language"] == "de"
    assert '<html lang="de"' in page.content.decode()
    assert '<html lang="en"' in client.get("/sign-in/").content.decode()


def test_the_language_of_the_account_comes_before_the_browsers(as_alice, alice_user):
    Preferences.objects.create(user=alice_user, language="de")

    page = as_alice.get("/", headers={"Accept-Language": "en"}).content.decode()

    assert '<html lang="de"' in page
    assert words_of(page)["just_now"] == "gerade eben"


def words_of(page: str) -> dict[str, str]:
    return json.loads(
        page.partition('<script id="words" type="application/json">')[2].split("<")[0]
    )


def test_scripts_have_a_word_for_one_and_for_more_of_what_is_counted():
    names = set(script_texts.texts_for_scripts())

    assert {name for name in names if name.endswith("_one")} == {
        name.replace("_other", "_one") for name in names if name.endswith("_other")
    }


@pytest.mark.slow
def test_rest_answers_in_english_whatever_language_is_asked_for(db):
    scene = Scene()
    told = [
        (operation, answer(scene, operation, *by), answer(scene, operation, *by, GERMAN))
        for operation in all_operations()
        if " /api/" in operation and not operation.endswith("/docs")  # which is a page
        for by in (("owner", Scope.SUBMIT), ("owner", Scope.PROPOSE), ("worker", Scope.WORK))
    ]

    assert len(told) > 100
    assert [operation for operation, english, german in told if english != german] == []


@pytest.mark.parametrize("body", ["{", "[]", "{}", json.dumps({"arguments": {"a": "\u202e"}})])
def test_rest_refuses_in_english_whatever_language_is_asked_for(db, body):
    scene = Scene()
    callers = (("owner", Scope.PROPOSE), ("owner", Scope.SUBMIT), ("worker", Scope.WORK))
    told = [
        (operation, *(answer(scene, operation, *by, words, body=body) for words in ((), GERMAN)))
        for operation in all_operations()
        if re.match(r"(POST|PUT|PATCH) /api/", operation) and not operation.endswith("/docs")
        for by in callers
    ]

    assert any(status in {400, 422} for _, (status, _), _ in told)
    assert [operation for operation, english, german in told if english != german] == []


def answer(scene, operation, caller, scope, headers=(), body=None):
    """Status and body, without what differs from one answer to the next; nothing is kept."""
    method = operation.partition(" ")[0].lower()
    doorbell.redis().flushdb()  # nobody polls too fast here
    said = request_of(operation, scene)
    said["headers"] = {**said.get("headers", {}), **dict(headers)}
    if body is not None:
        said |= {"data": body, "content_type": "application/json"}
    with atomic():
        response = getattr(scene.agent(caller, scope), method)(address_of(operation, scene), **said)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        set_rollback(True)
    return response.status_code, PASSING.sub("", body.decode())


@pytest.mark.django_db(transaction=True)
def test_a2a_answers_in_english_whatever_language_is_asked_for(orchestrator, consolidate):
    peer = Peer(orchestrator, Scope.SUBMIT)
    for method, params in (
        ("ListTasks", {}),
        ("GetTask", {"id": "01a1fb78-53c5-70b5-af29-92d7960ba506"}),
        ("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}),
        ("SendMessage", {}),
        ("CancelTask", {"id": "01a1fb78-53c5-70b5-af29-92d7960ba506"}),
        ("CancelTask", {"id": "no id"}),
        ("NoSuchMethod", {}),
    ):
        assert peer.rpc(method, params, headers=GERMAN) == peer.rpc(method, params), method
    card = "/.well-known/agent-card.json"
    assert peer.http("GET", card, headers=GERMAN).text == peer.http("GET", card).text


def test_what_is_sealed_is_the_same_whatever_language_a_person_reads(
    as_alice, as_bob, bob_user, a_payment
):
    Preferences.objects.create(user=bob_user, language="de")
    by_alice, by_bob = a_payment(), a_payment()

    for person, row in ((as_alice, by_alice), (as_bob, by_bob)):
        address = reverse("desk:transaction-reject", args=[row.pk])
        person.post(address, {"digest": row.intent_digest, "reason": "Too much."})

    english, german = sealed_by("Alice Moreau", by_alice), sealed_by("Bob Tanaka", by_bob)
    assert english == german
    assert len(english) == 2


def sealed_by(name, row):
    """What the events of the row say, without who and when."""
    return [
        (event.kind, event.via, PASSING.sub("", event.details), event.reason)
        for event in row.events.order_by("seq")
    ]


@pytest.mark.parametrize(
    "states", [State, Ending, Outcome, TaskState, QuestionState, RequestState, Progress, Wish]
)
def test_every_state_has_a_word_in_each_language(states):
    with translation.override("de"):
        assert [label for label in states.labels if in_words(label) == label] == []


def test_a_refusal_is_in_the_language_of_who_reads_it(as_bob, bob_user, a_payment):
    Preferences.objects.create(user=bob_user, language="de")
    row = a_payment()
    reject = reverse("desk:transaction-reject", args=[row.pk])
    as_bob.post(reject, {"digest": row.intent_digest, "reason": "Too much."})

    page = as_bob.get(reverse("desk:transaction", args=[row.pk])).content.decode()

    assert "Abgelehnt" in page


def test_a_function_of_the_agents_own_is_called_by_its_name():
    assert labels.title_of("humanlayer.drop_table") == "Drop table"
    assert labels.title_of("refund_customer") == "Refund customer"
