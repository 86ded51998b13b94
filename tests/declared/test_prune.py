"""Removing what is in no file: only what the files speak of, and never the last operator."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User

from approvals.models import Membership
from approvals.people import company_sign_in
from ledger.events import command_principal
from ledger.models import Agent, AgentToken, Event, Owner, RegisteredTool
from ledger.sign_off import groups
from ledger.tools import registrations
from tests.declared.conftest import exported, kinds_since
from tests.declared.test_documented import WHOLE

pytestmark = pytest.mark.django_db


def agent(slug: str, tenant: str = "acme") -> str:
    return f"kind: agent\ntenant: {tenant}\nslug: {slug}\nname: {slug.title()}\n"


def person(name: str, *roles: str) -> str:
    return f"kind: person\ntenant: acme\nusername: {name}\nroles: [{', '.join(roles)}]\n"


def test_without_prune_what_is_missing_is_only_named(apply, helpdesk, supervisor):
    said = apply(agent("helpdesk"))

    assert "? agent acme/supervisor is here and in no file: it stays" in said
    assert Agent.objects.get(slug="supervisor").is_active


def test_prune_switches_off_what_is_in_no_file_and_a_second_time_finds_nothing(
    apply, helpdesk, supervisor
):
    file = agent("helpdesk")
    said = apply(file, "--prune")
    events = Event.objects.count()

    assert "- agent acme/supervisor is switched off" in said
    assert not Agent.objects.get(slug="supervisor").is_active
    assert Event.objects.latest("pk").kind == "agent_deactivated"
    assert apply(file, "--prune").endswith("Nothing was changed: 1 are as they were.\n")
    assert kinds_since(events) == []


def test_prune_leaves_kinds_and_tenants_alone_that_no_file_speaks_of(
    apply, helpdesk, stranger, agent_client, olga_user
):
    agent_client(helpdesk)
    Owner.objects.create(tenant=helpdesk.tenant, service="billing", webhook_url="https://b.example")

    apply(agent("helpdesk"), "--prune")

    assert Agent.objects.get(pk=stranger.pk).is_active
    assert AgentToken.objects.get().revoked_at is None
    assert Owner.objects.count() == 1
    assert User.objects.get().is_active


def test_prune_revokes_tokens_and_takes_members_out(
    apply, helpdesk, agent_client, alice, olga_user
):
    agent_client(helpdesk, ["propose"])
    agent_client(helpdesk, ["submit"])
    group = groups.make("acme", "finance", by=alice, via="command")
    since = datetime(2026, 1, 1, tzinfo=UTC)
    terms = {"starts_at": since, "ends_at": None, "in_place_of": None}
    groups.add(group, alice, **terms, by=command_principal(), via="command")
    groups.make("acme", "board", by=alice, via="command")
    token = "kind: token\ntenant: acme\nagent: helpdesk\nscopes: [propose]\n"

    said = apply(token + "---\nkind: group\ntenant: acme\nname: board\n", "--prune")

    assert "- token acme/helpdesk submit without an end is revoked" in said
    assert "- group acme/finance loses every member" in said
    left = AgentToken.objects.filter(revoked_at=None).values_list("scopes", flat=True)
    assert list(left) == [["propose"]]
    assert not groups.members_of("acme", ["finance"])["finance"]


def test_members_whom_the_company_keeps_stay_and_are_in_no_export(apply, alice):
    group = groups.make("acme", "finance", by=alice, via="command")
    claim = {"claim": "group=finance", "by": company_sign_in.COMPANY, "via": "web"}
    groups.keep_in_step(group, alice, belongs=True, **claim)
    file = "kind: group\ntenant: acme\nname: finance\n"

    assert apply(file, "--prune").startswith("= 1 as they are")
    assert "members" not in exported()
    assert groups.members_of("acme", ["finance"])["finance"]


def test_prune_takes_roles_and_closes_accounts_of_no_other_tenant(
    apply, olga_user, alice_user, bob_user, globex
):
    Membership.objects.create(user=bob_user, tenant=globex, role="approver")

    said = apply(person("olga", "operator"), "--prune")

    assert "- person acme/alice loses every role here" in said
    assert not User.objects.get(username="alice").is_active
    assert User.objects.get(username="bob").is_active
    rows = Membership.objects.order_by("user__username").values_list("user__username", "tenant")
    assert list(rows) == [("bob", "globex"), ("olga", "acme")]


def test_the_last_operator_stays(apply, olga_user, alice_user):
    refused = apply(person("alice", "approver"), "--prune")

    assert "! person acme/olga: olga is the last operator of acme" in refused
    assert "Refused, and as before: person acme/olga." in refused
    assert Membership.objects.filter(user=olga_user, role="operator").exists()
    assert User.objects.get(username="olga").is_active
    closed = person("olga", "operator") + "is_active: false\n"
    for file in (person("olga", "viewer"), closed):
        assert "olga is the last operator of acme" in apply(file)
    assert Membership.objects.filter(user=olga_user, role="operator").exists()


def test_an_operator_hands_over_to_another_in_one_file(apply, olga_user, alice_user):
    said = apply(person("olga", "viewer") + "---\n" + person("alice", "operator"))

    assert "!" not in said, said
    rows = Membership.objects.order_by("user__username").values_list("user__username", "role")
    assert list(rows) == [("alice", "operator"), ("olga", "viewer")]


def test_what_a_file_names_is_not_removed_by_the_same_apply(apply, helpdesk, supervisor):
    token = "---\nkind: token\ntenant: acme\nagent: supervisor\nscopes: [decide]\n"

    refused = apply(agent("helpdesk") + token, "--prune")

    assert "document 2 (token): there is no agent supervisor of acme" in refused
    assert refused.endswith("Nothing was changed.\n")
    assert Agent.objects.get(slug="supervisor").is_active


def test_a_tool_that_is_in_no_file_is_withdrawn(apply, acme):
    manifest = next(each for each in WHOLE.split("---\n") if "kind: tool" in each)
    manifest = manifest.replace("  credential: billing\n", "")
    apply(manifest)
    other = manifest.replace("refund_invoice", "void_invoice").replace("billing.", "void.")

    said = apply(other, "--prune")

    assert "- tool acme/refund_invoice is withdrawn" in said
    assert registrations.current(acme, "refund_invoice") is None
    assert RegisteredTool.objects.filter(is_withdrawn=False).get().name == "void_invoice"
    assert "refund_invoice" not in exported()
