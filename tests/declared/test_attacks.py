"""Files of somebody who wants more: secrets in them, other tenants, more rights."""

from __future__ import annotations

import os
import stat
from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.utils import timezone

from approvals.models import Membership
from ledger.events import command_principal
from ledger.models import Agent, AgentToken, Event, Tenant
from ledger.sign_off import rules
from tests.declared.conftest import exported, kinds_since

pytestmark = pytest.mark.django_db
SECRET = "s3cret-4711-do-not-show"
AGENT = "kind: agent\ntenant: acme\nslug: helpdesk\nname: Helpdesk\n"
TOKEN = "kind: token\ntenant: acme\nagent: helpdesk\nscopes: [propose]\n"


@pytest.mark.parametrize(
    "document",
    [
        f"kind: remote_agent\ntenant: acme\nslug: far\nurl: https://f.example\ntoken: {SECRET}\n",
        "kind: credential\ntenant: acme\nname: a\nheader: X-Key\nhosts: [a.example]\n"
        f"secret: {{value: {SECRET}}}\n",
        f"{AGENT}webhook_secret: {SECRET}\n",
        f"kind: owner\ntenant: acme\nservice: b\nwebhook_url: https://b.example\n"
        f"webhook_secret: [{SECRET}]\n",
        f"{TOKEN}token: {SECRET}\n",
    ],
)
def test_a_secret_that_is_written_down_is_refused_and_not_repeated(apply, acme, document):
    refused = apply(document)

    assert "settings.yaml, document 1" in refused
    assert SECRET not in refused
    assert Event.objects.count() == 0


def test_a_secret_is_read_where_it_is_named(apply, acme, tmp_path, monkeypatch):
    (tmp_path / "key").write_text(f"{SECRET}\n")
    monkeypatch.setenv("THE_KEY", f"{SECRET}-2")
    file = "kind: credential\ntenant: acme\nname: a\nheader: X-Key\nhosts: [a.example]\nsecret: "

    assert "+ credential acme/a" in apply(f"{file}{{file: key}}\n")
    assert apply(f"{file}{{file: key}}\n").startswith("= 1 as they are")
    said = apply(f"{file}{{env: THE_KEY}}\n")

    assert "~ credential acme/a: secret not shown → another, not shown" in said
    assert SECRET not in said + exported()
    assert "the secret is empty, or too long" in apply(f"{file}{{env: NOT_SET_ANYWHERE}}\n")
    assert "cannot be read: FileNotFoundError" in apply(f"{file}{{file: gone}}\n")
    assert not any(SECRET in event.details for event in Event.objects.all())


def test_the_installations_own_secrets_go_to_nobody(apply, acme, tmp_path, monkeypatch):
    (tmp_path / "key").write_text(SECRET)
    monkeypatch.setenv("ASSENT_OIDC_CLIENT_SECRET_FILE", str(tmp_path / "key"))
    file = "kind: credential\ntenant: acme\nname: a\nheader: X-Key\nhosts: [a.example]\nsecret: "

    for name in ("ASSENT_SECRET_KEY", "DATABASE_URL", "REDIS_URL"):
        assert f"{name} is a setting of Assent" in apply(f"{file}{{env: {name}}}\n")
    for path in ("key", "../" + tmp_path.name + "/key"):
        assert "the file is one of the settings of Assent" in apply(f"{file}{{file: {path}}}\n")
    assert Event.objects.count() == 0


def test_a_token_is_shown_once_or_written_where_only_its_owner_reads(apply, helpdesk, tmp_path):
    file = tmp_path / "made"
    said = apply(TOKEN, "--secrets-to", str(file))
    row = AgentToken.objects.get()

    assert "assent_" not in said
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    token = file.read_text().split()[-1]
    assert AgentToken.hash_of(token) == row.token_hash
    assert token not in exported()
    again = apply(TOKEN.replace("propose", "submit"), "--secrets-to", str(file))
    assert "cannot be made" in again
    assert AgentToken.objects.count() == 1
    apply(TOKEN, "--secrets-to", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_copies_of_a_token_let_one_be_replaced(apply, helpdesk):
    apply(TOKEN)
    old = AgentToken.objects.get()

    apply(f"{TOKEN}copies: 2\n")
    assert AgentToken.objects.filter(revoked_at=None).count() == 2
    apply(TOKEN)

    old.refresh_from_db()
    assert old.revoked_at is not None
    assert AgentToken.objects.filter(revoked_at=None).count() == 1
    assert "agent: helpdesk" in exported()
    apply(f"{TOKEN}copies: 0\n")
    assert not AgentToken.objects.filter(revoked_at=None).exists()
    assert apply(f"{TOKEN}copies: 0\n").endswith("Nothing was changed: 1 are as they were.\n")


def test_a_token_that_has_ended_is_not_made_again(apply, helpdesk):
    past = timezone.now() - timedelta(days=1)
    AgentToken.issue(helpdesk, scopes=["propose"], expires_at=past)

    assert "kind: token" not in exported()
    assert apply(f"{TOKEN}expires_at: {past.isoformat()}\n").startswith("= 1 as they are")
    assert AgentToken.objects.count() == 1


def test_no_file_makes_an_account_with_more_rights_than_an_invitation(apply, acme):
    person = "kind: person\ntenant: acme\nusername: mallory\nroles: [operator]\n"
    for member in ("is_superuser: true", "is_staff: true", "password: x", "user_permissions: [1]"):
        refused = apply(f"{person}{member}\n")
        assert "there is no such member" in refused
    assert "roles.0" in apply(person.replace("operator", "superuser"))
    assert not User.objects.exists()

    apply(person)

    made = User.objects.get()
    assert (made.is_superuser, made.is_staff, made.has_usable_password()) == (False, False, False)
    assert kinds_since(0) == ["user_created", "role_granted", "person_invited"]


def test_a_document_touches_no_row_of_another_tenant(apply, helpdesk, stranger, carol_user):
    events = Event.objects.count()
    stolen = AGENT.replace("slug: helpdesk", "slug: globex/helpdesk")
    assert "slug: String should match" in apply(stolen)
    keeper = apply(f"{AGENT}kept_by: carol\n")
    assert "there is no person carol of acme" in keeper
    AgentToken.issue(stranger, scopes=["propose"])
    apply(f"{TOKEN}copies: 0\n")
    skill = "kind: skill\ntenant: acme\nagent: ghost\nslug: echo\n"
    assert "there is no agent or remote_agent ghost of acme" in apply(skill)

    apply(f"{AGENT}is_active: false\n")

    assert Agent.objects.get(pk=stranger.pk).is_active
    assert AgentToken.objects.get().revoked_at is None
    assert kinds_since(events) == ["agent_deactivated", "agent_changed"]


def test_an_account_of_another_tenant_keeps_its_name_its_address_and_is_not_closed(
    apply, acme, carol_user
):
    person = "kind: person\ntenant: acme\nusername: carol\nroles: [viewer]\n"
    for member in ("name: Mallory", "email: m@evil.example", "is_active: false"):
        refused = apply(f"{person}{member}\n")
        assert "The account of carol is not of acme alone" in refused
        assert not Membership.objects.filter(tenant=acme).exists()

    apply(person)  # as `invite` may

    carol = User.objects.get()
    assert (carol.get_full_name(), carol.email, carol.is_active) == ("Carol Diaz", "", True)
    assert Membership.objects.filter(tenant=acme).get().role == "viewer"


def test_an_address_that_its_owner_keeps_stays(apply, alice_user):
    person = "kind: person\ntenant: acme\nusername: alice\nroles: [approver]\n"

    refused = apply(f"{person}email: mallory@evil.example\n")

    assert "Only they can change their address now." in refused
    assert User.objects.get().email == ""


def test_rules_that_end_signing_are_refused_and_the_rest_goes_on(apply, acme):
    signed = {"when": {"tool": "pay"}, "then": {"verdict": "ask", "strength": "passkey"}}
    draft = rules.edit("acme", [signed], seen="", by=command_principal())
    rules.activate("acme", seen=draft.sha256, by=command_principal(), via="command")
    file = f"kind: rules\ntenant: acme\nrules: []\n---\n{AGENT}"

    for options in (["--dry-run"], []):
        said = apply(file, *options)
        assert "! rules acme: They end that something is signed with a passkey" in said
        assert said.endswith("Refused, and as before: rules acme.\n")
    assert rules.in_work("acme") is None
    active = rules.active("acme")
    assert active is not None
    assert active.number == draft.number
    assert Agent.objects.filter(slug="helpdesk").exists()


def test_cases_that_fail_keep_rules_from_counting(apply, acme):
    file = (
        "kind: rules\ntenant: acme\nrules: [{when: {tool: pay}, then: deny}]\n"
        "cases: [{given: {tool: pay}, then: pass}]\n"
    )

    assert "Case 1: pass was expected, and the rules say deny." in apply(file)
    assert rules.active("acme") is None


def test_one_mistake_anywhere_and_nothing_is_changed(apply):
    file = (
        "kind: tenant\ntenant: acme\nname: Acme\nundo_seconds: 61\n---\n"
        "kind: tenant\ntenant: globex\nname: Globex\n---\n"
        "kind: agent\ntenant: acme\nslug: a b\ncolour: red\n---\n"
        "kind: wish\ntenant: acme\n---\n[1]\n---\n"
        "kind: tenant\ntenant: globex\nname: Globex\n"
    )

    refused = apply(file)

    for fault in (
        "document 1 (tenant): undo_seconds: Input should be less than or equal to 60",
        "document 3 (agent): slug: String should match",
        "document 3 (agent): name: is missing",
        "document 3 (agent): colour: there is no such member",
        "document 4: kind: 'wish' is none of tenant, person,",
        "document 5: a document has the members kind and tenant",
        "document 6: the same as ",
    ):
        assert fault in refused
    assert refused.endswith("Nothing was changed.\n")
    assert not Tenant.objects.exists()


def test_a_file_that_unfolds_or_hides_a_member_is_refused(apply):
    bomb = "a: &a [x, x]\nkind: tenant\ntenant: acme\nname: *a\n"
    twice = "kind: tenant\ntenant: acme\nname: Acme\nname: Evil\n"
    code = "kind: tenant\ntenant: acme\nname: !!python/object/apply:os.getcwd []\n"

    assert "aliases (*name) are not allowed" in apply(bomb)
    assert "'name' stands in it twice" in apply(twice)
    assert "the text is not YAML" in apply(code)
    assert not Tenant.objects.exists()


def test_what_is_no_yaml_is_refused_without_the_lines_around_it(apply):
    refused = apply(f"kind: remote_agent\ntenant: acme\ntoken: {SECRET}\nurl: [https://f.example\n")

    assert "the text is not YAML: expected ',' or ']'" in refused
    assert "line 5, column 1" in refused
    assert SECRET not in refused


def test_a_misspelled_tool_is_refused(apply, acme):
    assert "there is no tool pya of acme" in apply(f"{AGENT}tools: [pya]\n")
    assert "there is no tool pya of acme" in apply(
        TOKEN.replace("[propose]", '["propose:pya"]') + f"---\n{AGENT}"
    )
    assert not Agent.objects.exists()


@pytest.mark.parametrize("app", ["a2a.doors.git_bus", "approvals.slack"])
def test_kinds_of_apps_that_are_left_out_say_so(apply, acme, app, monkeypatch):
    there = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda name: name != app and there(name))
    kind = {"a2a.doors.git_bus": "git_bus", "approvals.slack": "slack_route"}[app]

    refused = apply(f"kind: {kind}\ntenant: acme\n")

    assert f"kind: {kind} needs the app {app}, which ASSENT_OPTIONAL_APPS leaves out" in refused
    assert "kind: tenant" in exported()
