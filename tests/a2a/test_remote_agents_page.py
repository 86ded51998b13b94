"""Operators register remote agents on the desk, by the card that they were shown."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from a2a import remote as remote_agents
from a2a.models import RemoteAgent, Skill
from approvals.web.settings.connections.remote_forms import Wanted
from ledger.models import Agent, Event, Watched
from tests.a2a.test_remotes import FastAgent, fast_agent, until_it_is  # noqa: F401

NEW = "/connections/agents/new/"


@pytest.fixture
def far(acme) -> RemoteAgent:
    agent = Agent.objects.create(tenant=acme, slug="far", name="Far")
    card = Watched.objects.create(
        kind="agent_card",
        pinned={"name": "Far", "version": "1", "signatures": ["a"]},
        seen={"name": "Far\u202e", "version": "2", "signatures": ["b"]},
        held_why="echo: its input schema has changed.",
    )
    return RemoteAgent.objects.create(
        agent=agent, url="https://far.example", token="t0ken-of-far", watched=card
    )


def page_of(row, verb="") -> str:
    return f"/connections/agents/{row.pk}/{verb}"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_agent_is_registered_as_its_card_was_shown(as_olga, acme, fast_agent):  # noqa: F811
    address = {"tenant": "acme", "slug": "fast", "url": fast_agent.url, "token": "s3cret-token"}
    shown = as_olga.post(NEW, {**address, "wants_push": "on"})
    page = shown.content.decode()
    assert "Fast agent" in page
    assert "echo" in page
    assert "s3cret-token" not in page
    assert not RemoteAgent.objects.exists()

    answer = as_olga.post(NEW, {"wanted": shown.context["kept"]})

    row = RemoteAgent.objects.get()
    assert answer.headers["Location"] == page_of(row)
    assert (row.card_version, str(row.agent)) == ("2.0.1", "Fast agent (acme/fast)")
    assert (str(row.token), row.wants_push) == ("s3cret-token", True)
    event = Event.objects.get(kind="remote_agent_added")
    assert (event.principal_name, event.via) == ("Olga Novak", "web")
    assert "s3cret-token" not in event.details
    assert Skill.objects.filter(slug="echo", is_active=True).exists()

    fast_agent.kill()
    again = as_olga.post(page_of(row, "read"), follow=True).content.decode()
    assert "All connection attempts failed" in again
    refused = as_olga.post(NEW, {**address, "slug": "other"})
    assert refused.status_code == 422
    assert "All connection attempts failed" in refused.content.decode()
    assert RemoteAgent.objects.count() == 1


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_another_card_than_was_shown_is_neither_registered_nor_accepted(
    as_olga,
    acme,
    fast_agent,  # noqa: F811
):
    shown = as_olga.post(NEW, {"tenant": "acme", "slug": "fast", "url": fast_agent.url})
    fast_agent.kill()
    fast_agent.start("--gone", "ask")

    page = as_olga.post(NEW, {"wanted": shown.context["kept"]}, follow=True).content.decode()

    assert "The card has changed since you looked at it" in page
    assert not RemoteAgent.objects.exists()

    row = remote_agents.register(acme, slug="fast", url=fast_agent.url)
    seen = as_olga.get(page_of(row)).context["seen"]
    fast_agent.kill()
    fast_agent.start()
    page = as_olga.post(page_of(row, "accept"), {"seen": seen}, follow=True)
    assert "The card has changed since you looked at it" in page.content.decode()
    assert not Event.objects.filter(kind="remote_agent_pinned").exists()
    as_olga.post(page_of(row, "accept"), {"seen": page.context["seen"]})
    assert Event.objects.get(kind="remote_agent_pinned").principal_name == "Olga Novak"
    row.watched.refresh_from_db()
    assert row.watched.held_why == ""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_operator_sends_a_sample_task_and_sees_how_it_ended(
    as_olga,
    olga_user,
    acme,
    fast_agent,  # noqa: F811
):
    row = remote_agents.register(acme, slug="fast", url=fast_agent.url)
    terms = {"required_capabilities": [], "wants_push": ""}

    none = as_olga.post(page_of(row, "sample"), follow=True)
    assert "It has no sample task" in none.content.decode()
    refused = as_olga.post(page_of(row), {**terms, "sample": '{"skill": "other", "input": 1}'})
    assert "Write a skill of it" in refused.content.decode()
    as_olga.post(page_of(row), {**terms, "sample": '{"skill": "echo", "input": {"a": 1}}'})
    as_olga.post(page_of(row, "sample"))

    task = RemoteAgent.objects.get().probe
    assert task.submitted_by == f"user:{olga_user.pk}"
    until_it_is(task, "completed")
    assert task.result == {"echo": {"a": 1}}
    for page in (page_of(row), "/ops/"):
        assert f"/tasks/{task.pk}/" in as_olga.get(page).content.decode()


@pytest.mark.django_db
def test_its_page_shows_what_differs_and_no_secret(as_olga, far):
    answer = as_olga.get(page_of(far))
    page = answer.content.decode()

    assert "its input schema has changed." in page
    differences = answer.context["differences"]
    assert [each.member for each in differences] == ["name", "version"], "not the signatures"
    assert "\u202e" not in page, "what hides the direction of text is not in the page"
    assert "t0ken-of-far" not in page
    assert "Its card has changed" in as_olga.get("/connections/").content.decode()


@pytest.mark.django_db
def test_one_that_is_switched_off_is_offered_no_more_and_keeps_its_record(as_olga, far):
    Skill.objects.create(agent=far.agent, slug="echo", name="Echo")
    assert Skill.objects.offered_to("acme").exists()

    as_olga.post(page_of(far, "switch"), {"active": "0"})
    as_olga.post(page_of(far, "switch"), {"active": "0"})

    assert not Skill.objects.offered_to("acme").exists()
    assert Event.objects.filter(kind="agent_deactivated").count() == 1
    assert "it is given nothing" in as_olga.get(page_of(far)).content.decode()
    as_olga.post(page_of(far, "switch"), {"active": "1"})
    assert Skill.objects.offered_to("acme").exists()
    assert Event.objects.get(kind="agent_activated").principal_name == "Olga Novak"


@pytest.mark.django_db
def test_only_what_was_changed_of_its_terms_is_sealed(as_olga, far):
    sent = {
        "required_capabilities": ["streaming"],
        "sample": "",
        "initial-sample": "{}",
        "initial-wants_push": "False",
    }
    as_olga.post(page_of(far), sent)

    far.refresh_from_db()
    assert far.required_capabilities == ["streaming"]
    edits = json.loads(Event.objects.get(kind="remote_agent_changed").details)["edits"]
    assert edits == {"required_capabilities": [[], ["streaming"]]}


@pytest.mark.django_db
def test_what_was_shown_to_one_person_is_not_confirmed_by_another(as_olga, as_otto, olga_user):
    wanted = Wanted("acme", "x", "https://x.example", "", [], False, "0" * 64)

    for kept in (wanted.kept_for(olga_user.pk), "enc:00000000:AAAA", "nothing", ""):
        page = as_otto.post(NEW, {"wanted": kept}, follow=True)
        assert "Nothing was registered: begin again." in page.content.decode()
    elsewhere = Wanted("globex", "x", "https://x.example", "", [], False, "0" * 64)
    page = as_olga.post(NEW, {"wanted": elsewhere.kept_for(olga_user.pk)}, follow=True)
    assert "Nothing was registered: begin again." in page.content.decode()


@pytest.mark.django_db
def test_names_of_other_agents_and_of_other_tenants_are_refused(as_olga, helpdesk, globex):
    said = {"tenant": "acme", "slug": helpdesk.slug, "url": "https://x.example"}
    assert "There is such an agent already" in as_olga.post(NEW, said).content.decode()
    page = as_olga.post(NEW, {**said, "tenant": "globex", "slug": "x"})
    assert page.status_code == 422


@pytest.mark.django_db
def test_remote_agents_of_other_tenants_are_not_there(as_olga, as_alice, stranger):
    card = Watched.objects.create(kind="agent_card")
    theirs = RemoteAgent.objects.create(agent=stranger, url="https://x.example", watched=card)

    assert as_olga.get(page_of(theirs)).status_code == 404
    for verb in ("read", "accept", "sample", "switch"):
        assert as_olga.post(page_of(theirs, verb)).status_code == 404
    assert "x.example" not in as_olga.get("/connections/").content.decode()
    assert as_alice.get(reverse("desk:connection-remote-agent-new")).status_code == 403
