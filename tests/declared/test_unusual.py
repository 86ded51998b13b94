"""Files that are written otherwise than expected: each says the same, or is refused as a whole."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from approvals.models import Membership, SlackRoute, SlackWorkspace
from approvals.people import principal_of
from ledger.events import command_principal
from ledger.models import Agent, AgentToken, Event, GroupMember, RegisteredTool, Tenant
from ledger.sign_off import groups
from tests.declared.conftest import exported, kinds_since
from tests.declared.test_documented import WHOLE

pytestmark = pytest.mark.django_db
TENANT = "kind: tenant\ntenant: acme\nname: Acme\n"
AGENT = "kind: agent\ntenant: acme\nslug: helpdesk\nname: Helpdesk\n"
PERSON = "kind: person\ntenant: acme\nusername: alice\nroles: [approver]\n"
GROUP = "kind: group\ntenant: acme\nname: finance\nmembers:\n- person: alice\n"
BY = {"by": command_principal(), "via": "command"}


def apply_folder(folder):
    said = StringIO()
    try:
        call_command("apply", str(folder), stdout=said, stderr=said)
    except CommandError as refusal:
        said.write(str(refusal))
    return said.getvalue()


def test_a_moment_is_the_same_in_every_time_zone(apply, helpdesk, alice_user):
    token = "kind: token\ntenant: acme\nagent: helpdesk\nscopes: [propose]\n"
    times = ["2099-01-31T01:00:00+01:00", "2099-01-31T00:00:00Z"]
    files = [f"{token}expires_at: {at}\n---\n{GROUP}  ends_at: {at}\n" for at in times]
    apply(files[0])

    assert [apply(file).splitlines()[0] for file in files] == ["= 2 as they are"] * 2
    assert AgentToken.objects.count() == 1


def test_a_name_with_spaces_around_it_is_the_name(apply, acme):
    file = f"{PERSON}name: ' Alice Moreau '\n"
    apply(file)

    assert apply(file).startswith("= 1 as they are")
    assert User.objects.get().get_full_name() == "Alice Moreau"


def test_a_skill_without_a_name_is_named_as_its_slug_for_good(apply, helpdesk):
    file = "kind: skill\ntenant: acme\nagent: helpdesk\nslug: write\n"
    apply(file)

    assert apply(file).startswith("= 1 as they are")
    assert apply(exported("acme")).startswith("= 3 as they are")


def test_a_membership_that_has_ended_is_not_made_and_can_begin_again(apply, alice):
    ended = f"{GROUP}  starts_at: 2020-01-01T00:00:00Z\n  ends_at: 2021-01-01T00:00:00Z\n"
    apply(ended)
    assert apply(ended).startswith("= 1 as they are")
    group = groups.make("acme", "board", **BY)
    past = timezone.now() - timedelta(days=9)
    groups.add(group, alice, starts_at=past, ends_at=past + timedelta(1), in_place_of=None, **BY)

    said = apply(GROUP.replace("finance", "board"))

    assert "!" not in said, said
    assert GroupMember.objects.get(group=group, removed_at=None).ends_at is None


@pytest.mark.of_app("approvals.slack")
def test_routes_for_a_tool_and_for_an_owner_of_the_same_name_are_two(apply, acme):
    workspace = SlackWorkspace.objects.create(team_id="T0ACME", name="Acme", bot_user_id="U0BOT")
    workspace.tenants.add(acme)
    route = "kind: slack_route\ntenant: acme\nworkspace: T0ACME\nchannel: C0PAY\n"
    file = f"{route}tool: billing\n---\n{route}owner: billing\n"

    apply(file)

    rows = SlackRoute.objects.order_by("tool").values_list("tool", "owner")
    assert list(rows) == [("", "billing"), ("billing", "")]
    assert apply(exported("acme")).startswith("= 3 as they are")


def test_what_somebody_who_left_keeps_does_not_stop_the_export_from_being_applied(
    apply, helpdesk, alice_user
):
    helpdesk.kept_by = str(principal_of(alice_user))
    helpdesk.save()
    Membership.objects.all().delete()

    assert "kept_by: alice" in exported("acme")
    assert apply(exported("acme")).startswith("= 2 as they are")
    other = exported("acme").replace("tenant: acme", "tenant: umbrella")
    assert "there is no person alice of umbrella" in apply(other)


def test_a_tool_that_an_agent_names_is_not_withdrawn_by_the_same_apply(apply, acme):
    manifest = next(each for each in WHOLE.split("---\n") if "kind: tool" in each)
    manifest = manifest.replace("  credential: billing\n", "")
    agent = f"{AGENT}tools: [refund_invoice]\n"
    apply(f"{manifest}---\n{agent}")
    other = manifest.replace("refund_invoice", "void_invoice")

    refused = apply(f"{other}---\n{agent}", "--prune")

    assert "document 2 (agent): there is no tool refund_invoice of acme" in refused
    assert RegisteredTool.objects.get().is_withdrawn is False


def test_what_prune_does_not_remove_may_be_named(apply, helpdesk, supervisor):
    Agent.objects.filter(pk=supervisor.pk).update(is_active=False)
    token = "---\nkind: token\ntenant: acme\nagent: supervisor\nscopes: [decide]\n"

    said = apply(exported("acme").partition("---\n")[0] + "---\n" + AGENT + token, "--prune")

    assert "+ token acme/supervisor decide" in said
    assert "!" not in said, said


@pytest.mark.parametrize(
    "document",
    [
        f"{PERSON}email: {'a' * 60}@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 60}.example\n",
        f'{PERSON}name: "Alice\\0"\n',
        'kind: tenant\ntenant: globex\nname: "Globex\\0"\n',
        "kind: rules\ntenant: acme\nrules: [{when: {tool: 2026-01-01}, then: [.nan]}]\n",
        "kind: rules\ntenant: acme\nrules: []\ncases: [1, {given: 2026-01-01, then: {}}]\n",
        "kind: tool\ntenant: acme\nmanifest: {name: 2026-01-01, contract: [.nan]}\n",
        'kind: skill\ntenant: acme\nagent: helpdesk\nslug: a\ninput_schema: {default: "\\0"}\n',
        'kind: skill\ntenant: acme\nagent: helpdesk\nslug: a\ntags: ["\\0"]\n',
        "kind: skill\ntenant: acme\nagent: helpdesk\nslug: a\ninput_schema: {default: .inf}\n",
        'kind: owner\ntenant: acme\nservice: "b\\0"\nwebhook_url: https://b.example\n',
        'kind: credential\ntenant: acme\nname: "a\\0"\nheader: X\nhosts: [a.example]\n',
        'kind: mcp_server\ntenant: acme\nname: crm\naddress: "https://crm.example/\\0"\n',
        "kind: agent\ntenant: acme\nslug: a\nname: A\n? [1]\n: 2\n",
    ],
)
def test_what_cannot_be_kept_is_refused_in_words_and_nothing_of_it_is_changed(
    apply, helpdesk, alice_user, document
):
    events = Event.objects.count()

    said = apply(document)

    assert any(each in said for each in ("document 1", "is not YAML", "\n! rules acme: ")), said
    assert kinds_since(events) == []


def test_a_refusal_writes_no_control_characters(apply, acme):
    refused = apply(f'{TENANT}"\\e[2J": 1\n')

    assert "there is no such member" in refused
    assert "\x1b" not in refused


def test_a_mounted_folder_is_read_once_and_hidden_files_are_left_out(tmp_path):
    """As Kubernetes mounts a ConfigMap: each file is a link into a hidden folder."""
    (tmp_path / "..2026_11_30").mkdir()
    (tmp_path / "..2026_11_30" / "acme.yaml").write_text(TENANT)
    (tmp_path / "..data").symlink_to("..2026_11_30")
    (tmp_path / "acme.yaml").symlink_to("..data/acme.yaml")
    (tmp_path / ".#acme.yaml").write_text("[")

    said = apply_folder(tmp_path)

    assert said.startswith("+ tenant acme\n")
    assert Tenant.objects.get().name == "Acme"


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "settings").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for each in ("elsewhere/acme.yaml", "settings/globex.yaml"):
        (tmp_path / each).write_text(TENANT)
    (tmp_path / "settings" / "acme.yaml").symlink_to("../elsewhere/acme.yaml")
    (tmp_path / "settings" / "more").symlink_to("../elsewhere")

    said = apply_folder(tmp_path / "settings")

    assert "settings/acme.yaml: it is a link out of the folder" in said
    assert "settings/more: it is a link to a folder" in said
    assert not Tenant.objects.exists()


def test_the_installations_own_secrets_go_to_nobody_by_another_path(
    apply, acme, tmp_path, monkeypatch
):
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "key").write_text("s3cret")
    (tmp_path / "key").symlink_to("..data/key")
    monkeypatch.setenv("ASSENT_SECRET_KEY_FILE", str(tmp_path / "key"))
    file = "kind: credential\ntenant: acme\nname: a\nheader: X-Key\nhosts: [a.example]\nsecret: "

    for path in ("key", "..data/key"):
        refused = apply(f"{file}{{file: {path}}}\n")
        assert "the file is one of the settings of Assent" in refused


def test_a_credential_goes_to_other_hosts_only_with_its_secret_named(apply, acme, monkeypatch):
    monkeypatch.setenv("KEY", "k-4711")
    file = "kind: credential\ntenant: acme\nname: a\nheader: X-Key\nhosts: [a.example]\n"
    apply(f"{file}secret: {{env: KEY}}\n")

    refused = apply(file.replace("a.example", "b.example"))

    assert "! credential acme/a: Name its secret: it is set together with the rest." in refused


@pytest.mark.of_app("a2a.doors.git_bus")
def test_a_dry_run_leaves_out_what_waits_for_another_service_by_way_of_others(apply, acme):
    bus = "kind: git_bus\ntenant: acme\nagent: helpdesk\nparticipant: p\nurl: https://g.example/r\n"
    far = "kind: remote_agent\ntenant: acme\nslug: far\nurl: https://far.example\n"
    skill = "kind: skill\ntenant: acme\nagent: far\nslug: echo\n"
    method = "methods: [{method: m, skill: echo}]\n"

    said = apply("---\n".join([AGENT, far, skill, bus + method]), "--dry-run")

    assert "!" not in said, said
    assert (Agent.objects.count(), Event.objects.count()) == (0, 0)
