"""The pages of agents: what one may ask for, who keeps it, its tokens and its first request."""

from __future__ import annotations

import json
import re
import shlex
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from approvals.people import principal_of
from approvals.web.settings import first_calls
from ledger.agents import enrolment, note_use
from ledger.models import Agent, AgentToken, Event, Tenant, Transaction
from ledger.principals import Surface

pytestmark = pytest.mark.django_db


def test_an_operator_says_who_keeps_a_supervisor_and_how_much_is_reviewed(
    as_olga, bob_user, carol_user, helpdesk
):
    address = reverse("desk:agent", args=[helpdesk.pk])
    data = {"name": "Helpdesk agent", "is_active": "on", "review_percent": "25"}

    refused = as_olga.post(address, {**data, "kept_by": "Olga"})
    elsewhere = as_olga.post(address, {**data, "kept_by": f"user:{carol_user.pk}"})
    too_much = as_olga.post(address, {**data, "review_percent": "101"})
    as_olga.post(address, {**data, "kept_by": f"user:{bob_user.pk}"})
    as_olga.post(address, {**data, "kept_by": f"user:{bob_user.pk}", "review_percent": ""})

    assert {refused.status_code, elsewhere.status_code} == {422}
    assert "less than or equal to 100" in too_much.content.decode()
    helpdesk.refresh_from_db()
    assert (helpdesk.kept_by, helpdesk.review_percent) == (f"user:{bob_user.pk}", 25)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"kept_by": "", "review_percent": 10}, {"kept_by": "own", "review_percent": "10"}),
        ({"kept_by": "own", "review_percent": 10}, {"kept_by": "", "review_percent": "10"}),
        ({"kept_by": "own", "review_percent": 10}, {"kept_by": "own", "review_percent": "0"}),
    ],
)
def test_an_operator_changes_neither_keeper_nor_review_of_an_agent_that_is_theirs(
    as_olga, olga_user, helpdesk, before, after
):
    own = {"own": f"user:{olga_user.pk}", "": ""}
    before = before | {"kept_by": own[before["kept_by"]]}
    type(helpdesk).objects.filter(pk=helpdesk.pk).update(**before)
    address = reverse("desk:agent", args=[helpdesk.pk])
    data = {"name": "Helpdesk agent", "is_active": "on", **after}

    answer = as_olga.post(address, data | {"kept_by": own[after["kept_by"]]})

    assert "another operator has to change" in answer.content.decode()
    helpdesk.refresh_from_db()
    assert before == {"kept_by": helpdesk.kept_by, "review_percent": helpdesk.review_percent}


def test_an_agent_with_a_webhook_gets_a_secret_that_is_shown_once(as_olga, helpdesk):
    address = reverse("desk:agent", args=[helpdesk.pk])
    data = {"name": "Helpdesk agent", "is_active": "on", "webhook_url": "https://hook.example/a"}

    page = as_olga.post(address, data).content.decode()
    helpdesk.refresh_from_db()
    again = as_olga.get(address).content.decode()

    assert helpdesk.webhook_secret.startswith("whsec_")
    assert helpdesk.webhook_secret in page.replace("&#x3D;", "=").replace("&#43;", "+")
    assert helpdesk.webhook_secret not in again
    before = helpdesk.webhook_secret
    as_olga.post(address, data)
    helpdesk.refresh_from_db()
    assert helpdesk.webhook_secret == before
    as_olga.post(reverse("desk:agent-secret", args=[helpdesk.pk]))
    helpdesk.refresh_from_db()
    assert helpdesk.webhook_secret not in {"", before}


@pytest.mark.parametrize("url", ["ftp://hook.example/", "https://me:secret@hook.example/"])
def test_a_webhook_that_cannot_work_is_refused_in_the_form(as_olga, helpdesk, url):
    answer = as_olga.post(
        reverse("desk:agent", args=[helpdesk.pk]),
        {"name": "Helpdesk agent", "webhook_url": url},
    )

    assert answer.status_code == 422
    helpdesk.refresh_from_db()
    assert helpdesk.webhook_url == ""


def test_agents_and_tokens_are_made_for_ones_own_tenants_only(as_olga, stranger):
    form = {"tenant": "globex", "slug": "spy", "name": "Spy", "tools": ["*"]}
    as_olga.post(reverse("desk:agent-new"), form)
    as_olga.post(reverse("desk:agent-token", args=[stranger.pk]), {"scopes": ["propose"]})

    assert not Agent.objects.filter(slug="spy").exists()
    assert not AgentToken.objects.exists()


def test_an_agent_that_is_let_in_has_a_token_and_a_first_request_that_works(as_olga, acme):
    Tenant.objects.filter(pk=acme.pk).update(tools=["pay"])
    form = {"tenant": "acme", "name": "Front desk", "tools": ["pay", "launch"]}
    page = as_olga.post(reverse("desk:agent-new"), form)

    agent = Agent.objects.get(slug="front-desk")
    token, call = page.context["token"], page.context["call"]
    body = json.loads(shlex.split(call.curl.replace("\\\n", " "))[-1])
    answer = Client().post(
        "/api/v1/transactions",
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "first"},
    )
    assert answer.status_code == 201, answer.content
    assert Transaction.objects.get().proposed_by == str(agent.principal)
    again = as_olga.get(reverse("desk:agent", args=[agent.pk])).content.decode()
    assert token not in again
    here = as_olga.get(reverse("desk:agent-first-request", args=[agent.pk])).content.decode()
    assert "Its first request is here" in here


def test_a_rotated_token_lives_as_long_as_the_old_one_was_meant_to(as_olga, helpdesk):
    a_day_ago = timezone.now() - timedelta(days=1)
    old, _ = AgentToken.issue(
        helpdesk, scopes=["propose"], expires_at=a_day_ago + timedelta(days=30)
    )
    AgentToken.objects.filter(pk=old.pk).update(created_at=a_day_ago)
    rotate = reverse("desk:agent-token-rotate", args=[helpdesk.pk, old.pk])

    as_olga.post(rotate)
    as_olga.post(rotate)  # is revoked already

    (new,) = AgentToken.objects.exclude(pk=old.pk)
    assert abs(new.expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
    assert new.scopes == ["propose"]


def test_a_new_agent_may_ask_for_what_was_chosen_and_its_token_ends(as_olga, acme):
    address, form = reverse("desk:agent-new"), {"tenant": "acme", "name": "Front desk"}
    page = as_olga.get(address).content.decode()
    assert "checked" not in page
    assert re.search(r'<option value="7776000" selected>', page)

    refused = as_olga.post(address, form)
    assert refused.status_code == 422
    assert "Choose what it may ask for." in refused.content.decode()
    assert not Agent.objects.exists()

    as_olga.post(address, {**form, "tools": ["pay"], "lasts": "7776000"})
    agent = Agent.objects.get()
    assert agent.tools == ["pay"]
    left = agent.tokens.get().expires_at - timezone.now()
    assert timedelta(days=89) < left < timedelta(days=91)
    sealed = json.loads(Event.objects.get(kind="agent_changed").details)
    assert sealed["edits"]["tools"][1] == ["pay"]


def test_the_page_of_a_new_token_that_is_loaded_again_issues_no_other_one(as_olga, helpdesk):
    helpdesk.tokens.all().delete()
    address = reverse("desk:agent-token", args=[helpdesk.pk])
    page = as_olga.get(reverse("desk:agent", args=[helpdesk.pk]))
    form = {"scopes": ["propose"], "newest": page.context["newest_token"]}

    first = as_olga.post(address, form)
    again = as_olga.post(address, form, follow=True)

    assert first.context["token"]
    assert helpdesk.tokens.count() == 1
    assert "no other one now" in again.content.decode()
    as_olga.post(address, {**form, "newest": first.context["newest_token"]})
    assert helpdesk.tokens.count() == 2


def test_tokens_of_sign_ins_are_no_matter_of_the_page(as_olga, helpdesk):
    helpdesk.tokens.all().delete()
    page = as_olga.get(reverse("desk:agent", args=[helpdesk.pk]))
    form = {"scopes": ["propose"], "newest": page.context["newest_token"]}
    ends = timezone.now() + timedelta(minutes=15)
    row, _ = AgentToken.issue(helpdesk, scopes=["propose"], is_temporary=True, expires_at=ends)

    rotated = as_olga.post(reverse("desk:agent-token-rotate", args=[helpdesk.pk, row.pk]))
    issued = as_olga.post(reverse("desk:agent-token", args=[helpdesk.pk]), form)

    assert rotated.status_code == 404
    assert issued.context["token"]
    assert [each.is_temporary for each, _ in issued.context["tokens"]] == [False]
    listed = as_olga.get(reverse("desk:agents")).context["agents"]
    assert [each.tokens_there for each in listed] == [1]


def test_a_revoked_token_is_refused_at_once(as_olga, as_helpdesk):
    assert as_helpdesk.get("/transactions").status_code == 200

    row = as_helpdesk.token_row
    as_olga.post(reverse("desk:agent-token-revoke", args=[row.agent_id, row.pk]))

    assert as_helpdesk.get("/transactions").status_code == 401


def test_a_token_names_who_issued_it_and_its_last_use_to_the_hour(as_olga, helpdesk, olga_user):
    olga = principal_of(olga_user)
    row, _ = enrolment.issue(helpdesk, scopes=["propose"], by=olga, via=Surface.WEB)
    address = reverse("desk:agent", args=[helpdesk.pk])

    note_use(row.token_hash)
    row.refresh_from_db()
    used_at = row.last_used_at
    note_use(row.token_hash)
    row.refresh_from_db()

    assert used_at is not None
    assert row.last_used_at == used_at
    assert olga.name in as_olga.get(address).content.decode().partition("<main")[2]


def test_what_another_operator_changed_meanwhile_stays(as_olga, helpdesk):
    page = as_olga.get(reverse("desk:agent", args=[helpdesk.pk])).context["form"]
    old = {field.html_initial_name: field.value() for field in page}
    Agent.objects.filter(pk=helpdesk.pk).update(is_active=False, review_percent=77)
    posted = {field.name: field.value() for field in page} | {"name": "Front desk"}
    body = {name: "" if value is None else value for name, value in (old | posted).items()}

    as_olga.post(reverse("desk:agent", args=[helpdesk.pk]), body)

    helpdesk.refresh_from_db()
    assert (helpdesk.name, helpdesk.is_active, helpdesk.review_percent) == ("Front desk", False, 77)


def test_a_keeper_who_is_gone_stays_the_keeper(as_olga, helpdesk, bob_user):
    Agent.objects.filter(pk=helpdesk.pk).update(kept_by=f"user:{bob_user.pk}")
    bob_user.is_active = False
    bob_user.save()

    page = as_olga.get(reverse("desk:agent", args=[helpdesk.pk])).context["form"]

    assert page["kept_by"].value() in dict(page.fields["kept_by"].choices)


def test_live_tokens_stand_first_and_no_token_speaks_for_a_person_who_tries(as_olga, helpdesk):
    revoked, _ = AgentToken.issue(helpdesk, scopes=["propose"])
    AgentToken.objects.filter(pk=revoked.pk).update(revoked_at=timezone.now())
    live, _ = AgentToken.issue(helpdesk, scopes=["propose"])

    listed = as_olga.get(reverse("desk:agent", args=[helpdesk.pk])).context["tokens"]
    assert [row.pk for row, _rights in listed] == [live.pk, revoked.pk]

    form = {"tenant": "acme", "name": "Otto Lang, trying", "slug": "tries-7", "tools": ["*"]}
    assert as_olga.post(reverse("desk:agent-new"), form).status_code == 422
    tries = Agent.objects.create(tenant_id="acme", slug="tries-8", name="Olga, trying")
    address = reverse("desk:agent-token", args=[tries.pk])
    assert as_olga.post(address, {"scopes": ["propose"]}).status_code == 404


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": True}, "required": ["a"]},
        {"type": "array", "items": True, "minItems": 2.0},
        {"anyOf": [True, {"type": "string"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        {"type": "string", "minLength": 30_000_000},
        {"type": "string", "pattern": r"^(((((((\w+)+)+)+)+)+)+)+!$"},
        True,
    ],
)
def test_an_example_is_made_of_any_schema(schema):
    assert len(json.dumps(first_calls.example_of(schema))) < 1_000
