"""The page of a tenant: its tools, pace and limits, kept by its operators alone."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from approvals.models import Membership, Role
from ledger.agents import enrolment, policy_documents
from ledger.events import command_principal
from ledger.models import Event, Tenant
from ledger.principals import Surface

pytestmark = pytest.mark.django_db
ADDRESS = "/settings/organisation/acme/"


def form_of(client, address=ADDRESS, **changed):
    """The form as a browser would send it back, with some fields changed."""
    form = client.get(address).context["form"]
    sent = {}
    for name in form.fields:
        value = form[name].initial
        if value is None or value is False:
            continue
        sent |= {name: value, f"initial-{name}": value}
    return {name: value for name, value in {**sent, **changed}.items() if value is not None}


def edits() -> list[dict]:
    rows = Event.objects.filter(kind="tenant_changed", via="web").order_by("pk")
    return [json.loads(row.details)["edits"] for row in rows]


def test_what_an_operator_changes_is_saved_and_sealed_and_nothing_else(as_olga, acme):
    form = form_of(as_olga, undo_seconds="30", limit_pending="7")
    Tenant.objects.filter(pk="acme").update(fast_approvals=9)  # meanwhile, by somebody else

    assert as_olga.post(ADDRESS, form).status_code == 302

    acme.refresh_from_db()
    assert (acme.undo_seconds, acme.fast_approvals, acme.tools) == (30, 9, ["*"])
    assert acme.limits == {"pending": 7}
    assert edits() == [{"undo_seconds": [0, 30], "limit_pending": [None, 7]}]


def test_the_waiting_time_of_new_signing_keys_is_kept_here(as_olga, acme):
    assert as_olga.post(ADDRESS, form_of(as_olga, signing_key_hours="721")).status_code == 422

    as_olga.post(ADDRESS, form_of(as_olga, signing_key_hours="1"))

    acme.refresh_from_db()
    assert acme.signing_key_hours == 1
    assert edits() == [{"signing_key_hours": [24, 1]}]


@pytest.mark.parametrize("changed", [{"further_tools": "write_note"}, {"tools": ["pay"]}])
def test_a_tool_that_a_colleague_forbade_meanwhile_stays_forbidden(as_olga, acme, changed):
    Tenant.objects.filter(pk="acme").update(tools=["pay", "launch"])
    form = form_of(as_olga, **changed)
    Tenant.objects.filter(pk="acme").update(tools=["pay"])

    assert as_olga.post(ADDRESS, form).status_code == 302

    acme.refresh_from_db()
    assert acme.tools == ["pay", *changed.get("further_tools", "").split()]


def test_an_emptied_limit_is_the_default_again(as_olga, acme):
    Tenant.objects.filter(pk="acme").update(limits={"pending": 7, "tasks": 3})

    as_olga.post(ADDRESS, form_of(as_olga, limit_pending=""))

    acme.refresh_from_db()
    assert acme.limits == {"tasks": 3}


def test_names_that_are_not_on_the_list_stay_allowed(as_olga, acme):
    Tenant.objects.filter(pk="acme").update(tools=["pay", "of_another"])
    form = form_of(as_olga, tools=["pay", "launch"])
    assert form["further_tools"] == "of_another"

    as_olga.post(ADDRESS, form)

    acme.refresh_from_db()
    assert set(acme.tools) == {"pay", "launch", "of_another"}


@pytest.mark.of_app("approvals.oauth")
def test_what_agents_of_people_may_ask_for_is_chosen_and_sealed(as_olga, acme):
    Tenant.objects.filter(pk="acme").update(own_agent_tools=["*", "of_another"])
    offered = [
        value for value, _ in as_olga.get(ADDRESS).context["form"]["own_agent_tools"].field.choices
    ]
    assert len(offered) == len(set(offered))
    assert {"*", "pay", "of_another"} <= set(offered)

    as_olga.post(ADDRESS, form_of(as_olga, own_agent_tools=["pay"]))

    acme.refresh_from_db()
    assert acme.own_agent_tools == ["pay"]
    assert edits() == [{"own_agent_tools": [["*", "of_another"], ["pay"]]}]


@pytest.mark.parametrize(
    "wrong",
    [{"undo_seconds": "61"}, {"fast_approvals": ""}, {"limit_pending": "0"}, {"name": ""}],
)
def test_what_cannot_be_is_refused_in_the_form(as_olga, wrong):
    answer = as_olga.post(ADDRESS, {**form_of(as_olga), **wrong})

    assert answer.status_code == 422
    assert "Acme" in answer.content.decode()
    assert edits() == []


def test_the_slug_stays_and_the_required_policy_is_shown(as_olga, acme):
    by = {"by": command_principal(), "via": Surface.COMMAND}
    text = {"name": "Goodwill", "version": "3", "text": "1. Small ones.\n"}
    policy, _is_new = policy_documents.keep_policy("acme", by=by["by"], **text)
    enrolment.require_policy(acme, policy.sha256, **by)

    page = as_olga.get(ADDRESS).content.decode()
    as_olga.post(ADDRESS, form_of(as_olga, slug="other", required_policy="x"))

    assert "Goodwill 3" in page
    acme.refresh_from_db()
    assert acme.required_policy == policy.sha256


def test_of_several_tenants_there_is_a_list_and_of_others_nothing(as_olga, olga_user, globex):
    only = as_olga.get(reverse("desk:organisations"))
    assert f'action="{ADDRESS}"' in only.content.decode()
    other = reverse("desk:organisation", args=["globex"])
    assert as_olga.get(other).status_code == 404
    assert as_olga.post(other, {"name": "Ours"}).status_code == 404

    Membership.objects.create(user=olga_user, tenant=globex, role=Role.OPERATOR)

    page = as_olga.get(reverse("desk:organisations")).content.decode()
    assert ("Acme" in page, "Globex" in page) == (True, True)
    assert as_olga.get(other).status_code == 200


def test_only_operators_have_the_page(as_alice, as_vera):
    for client in (as_alice, as_vera):
        assert client.get(ADDRESS).status_code == 403
        assert client.post(ADDRESS, {"name": "Ours"}).status_code == 403


def test_the_zone_of_days_and_months_is_chosen_and_sealed(as_olga, acme):
    assert as_olga.post(ADDRESS, form_of(as_olga, time_zone="Europe/Madrid")).status_code == 302

    acme.refresh_from_db()
    assert acme.time_zone == "Europe/Madrid"
    assert edits() == [{"time_zone": ["UTC", "Europe/Madrid"]}]
    assert as_olga.post(ADDRESS, form_of(as_olga, time_zone="Mars/Base")).status_code == 422
