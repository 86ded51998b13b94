"""The places of the desk: which entries and tabs each person has."""

from __future__ import annotations

import pytest
from django.urls import reverse

from a2a.models import Task
from approvals.people import principal_of, record_change
from approvals.presentation.labels import first_words

pytestmark = pytest.mark.django_db


def places(person, path="/") -> dict[str, list[str]]:
    """The tabs of each place that the bar shows."""
    shown = person.get(path).context["places"]
    return {str(each.place.label): [str(page.label) for page in each.pages] for each in shown}


def test_viewers_have_three_places_managers_four_and_operators_five(as_alice, as_vera, as_olga):
    assert list(places(as_alice)) == ["Inbox", "Work", "Record", "Settings"]
    assert list(places(as_vera)) == ["Inbox", "Work", "Record"]
    assert list(places(as_olga)) == ["Inbox", "Work", "Record", "Settings", "Operations"]


@pytest.mark.of_app("approvals.insight")
def test_tabs_are_shown_to_those_who_may_open_them(as_alice, as_vera, as_olga):
    assert places(as_vera)["Record"] == ["Decisions"]
    assert places(as_alice)["Record"] == ["Decisions", "Standing", "Insight"]
    assert places(as_alice)["Settings"] == ["Rules"]
    assert places(as_olga)["Record"] == ["Decisions", "Standing", "Insight", "People and set-up"]
    for person in (as_alice, as_vera, as_olga):
        for each in person.get("/").context["places"]:
            for page in each.pages:
                assert person.get(reverse(page.address)).status_code == 200


@pytest.mark.parametrize(
    ("path", "place", "tab"),
    [
        ("/", "Inbox", "Inbox"),
        ("/reviews/", "Inbox", "Inbox"),
        ("/tasks/new/", "Work", "Tasks"),
        pytest.param(
            *("/insight/", "Record", "Insight"), marks=pytest.mark.of_app("approvals.insight")
        ),
        ("/standing/glass/", "Record", "Standing"),
        ("/people/", "Settings", "People"),
        ("/tools/new/", "Settings", "Tools"),
        ("/settings/rules/", "Settings", "Rules"),
        ("/settings/rules/acme/groups/", "Settings", "Rules"),
        ("/ops/", "Operations", "Now"),
    ],
)
def test_a_page_is_marked_in_its_place(as_olga, path, place, tab):
    current = [each for each in as_olga.get(path).context["places"] if each.current]

    assert [(str(each.place.label), str(each.current.label)) for each in current] == [(place, tab)]


def test_one_banner_at_a_time_and_none_for_what_one_did_oneself(as_alice, alice_user, olga_user):
    olga, alice = principal_of(olga_user), principal_of(alice_user)
    for role in ("viewer", "operator"):
        record_change(alice_user, "role_granted", by=olga, via="web", tenant="acme", role=role)
    record_change(alice_user, "passkey_added", by=alice, via="web")

    page, account = (as_alice.get(path).content.decode() for path in ("/", "/account/"))

    assert page.count('class="banner"') == 1
    assert "gave you the role operator" in page
    assert "added a passkey" not in page
    assert "You added a passkey" in account


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"transcripts": ["The venue is\nthe town hall.", "b"]}, "The venue is the town hall."),
        ({"a": {"b": [1, "c"]}}, "c"),
        ({"n": 1}, ""),
        (None, ""),
        ({"text": "x" * 500}, "x" * 79 + "…"),
    ],
)
def test_a_task_is_listed_by_the_first_words_that_it_was_given(given, words):
    assert first_words(Task(input=given)) == words


def test_an_operator_tries_every_tool_from_the_list_and_nobody_else_does(as_olga, as_alice, acme):
    address = "/tools/try/acme/pay/"

    assert address in as_olga.get("/tools/").content.decode()
    assert as_olga.get(address).status_code == 200
    assert "/tools/try/" not in as_alice.get("/tools/").content.decode()
    assert as_alice.get(address).status_code == 403


def test_what_waits_for_a_second_operator_stands_before_what_waits_for_managers(
    as_olga, as_otto, alice_user, a_payment
):
    a_payment()
    as_olga.post(f"/people/{alice_user.pk}/role/give", {"role": "acme operator"})

    page = as_otto.get("/").content.decode()

    assert 0 < page.index('id="group-changes"') < page.index('id="group-mine"')
