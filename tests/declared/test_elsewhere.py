"""Files about agents, servers and repositories elsewhere: their cards, lists, keys and tokens."""

from __future__ import annotations

import json
import re
from io import StringIO

import pytest
import yaml
from django.core.management import call_command

from a2a.models import RemoteAgent, Skill
from ledger.models import Agent, Event, Owner, RegisteredTool
from tests.a2a.card_server import card, card_server  # noqa: F401
from tests.declared.conftest import exported, kinds_since
from tests.mcp_gateway.upstreams import scripted

pytestmark = pytest.mark.django_db(transaction=True)
TERMS = "---\nkind: skill\ntenant: acme\nagent: far\nslug: echo\ntimeout_s: 120\n"


@pytest.fixture
def far(apply, acme, card_server):  # noqa: F811
    """The text of a remote agent whose card somebody has looked at."""
    file = f"kind: remote_agent\ntenant: acme\nslug: far\nurl: {card_server.url}\n"
    seen = re.search("and is ([0-9a-f]{64}): look at it", apply(file))
    assert seen is not None
    return f"{file}card: {seen.group(1)}\n"


def test_a_remote_agent_comes_with_its_skills_whose_terms_stand_in_files(apply, far):
    said = apply(far + TERMS)

    assert "!" not in said, said
    skill = Skill.objects.get(slug="echo")
    assert (skill.name, skill.timeout.total_seconds()) == ("Echo", 120)
    assert apply(far + TERMS).startswith("= 2 as they are")
    assert apply(exported()).startswith("= 3 as they are")
    own = "kind: agent\ntenant: acme\nslug: me\nname: Me\n---\n" + TERMS.replace("far", "me")
    apply(own.replace("slug: echo", "slug: own"), "--prune")
    assert Skill.objects.get(slug="echo").is_active
    assert "offers no skill sing" in apply(far + TERMS.replace("echo", "sing"))
    assert "says what its skills are" in apply(f"{far}{TERMS}name: Mine\n")


def test_another_card_than_the_declared_one_is_refused(apply, far, card_server):  # noqa: F811
    card_server.card = card(version="2")

    said = apply(far + TERMS)

    assert "! remote_agent acme/far: Its card offers echo, and is " in said
    assert "! skill acme/echo: It names what is not there, as that was refused." in said
    assert not RemoteAgent.objects.exists()
    assert kinds_since(0) == []


def test_a_kept_token_goes_to_no_other_address(apply, far, card_server, monkeypatch):  # noqa: F811
    monkeypatch.setenv("FAR_TOKEN", "t-4711")
    apply(f"{far}token: {{env: FAR_TOKEN}}\n")
    assert str(RemoteAgent.objects.get().token) == "t-4711"
    assert apply(far).startswith("= 1 as they are")
    elsewhere = far.replace("127.0.0.1", "localhost")

    assert "Its token is for the address before: name the one" in apply(elsewhere)
    assert RemoteAgent.objects.get().url == card_server.url
    assert "!" not in apply(f"{elsewhere}token: {{env: FAR_TOKEN}}\n")


def test_it_is_switched_off_by_a_file_and_by_prune_and_on_again(apply, far):
    apply(far)
    apply(f"{far}is_active: false\nwants_push: true\n")
    agent = Agent.objects.get(slug="far")
    assert (agent.is_active, agent.remote.wants_push) == (False, True)
    apply(far)
    assert Agent.objects.get(slug="far").is_active

    other = far.replace("slug: far", "slug: near")
    refused = apply(other, "--prune")

    assert "! remote_agent acme/near: Another agent of the tenant has a skill 'echo'" in refused
    assert not Agent.objects.get(slug="far").is_active
    assert kinds_since(0)[-1] == "agent_deactivated"


def test_a_sample_that_its_skill_does_not_take_is_refused_before_it_is_registered(apply, far):
    assert "sample: write a skill of it" in apply(f"{far}sample: {{skill: sing, input: {{}}}}\n")
    assert not RemoteAgent.objects.exists()


def test_a_server_and_the_manifest_of_its_tool_are_applied_together(apply, acme, settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with scripted() as server:
        file = f"kind: mcp_server\ntenant: acme\nname: billing\naddress: {server.address}\n"
        apply(file)
        shown = StringIO()
        call_command("mcp_upstream", "show", "billing", "refund", tenant="acme", stdout=shown)
        [manifest] = yaml.safe_load(shown.getvalue())["tools"]
        tool = yaml.safe_dump({"kind": "tool", "tenant": "acme", "manifest": manifest})
        assert "- mcp_server acme/billing is removed" in apply(
            file.replace("name: billing", "name: other"), "--prune"
        )

        said = apply(f"{file}---\n{tool}")

        assert "!" not in said, said
        assert RegisteredTool.objects.get(is_withdrawn=False).name == "billing_refund"
        assert "\n= 2 as they are\nNothing was changed" in apply(f"{file}---\n{tool}")


def test_webhook_secrets_are_taken_from_where_they_are_named(apply, acme, monkeypatch):
    monkeypatch.setenv("HOOK", "whsec_" + "QUFB" * 10)
    secret = "webhook_secret: {env: HOOK}\n"
    file = (
        f"kind: owner\ntenant: acme\nservice: b\nwebhook_url: https://b.example\n{secret}---\n"
        f"kind: agent\ntenant: acme\nslug: h\nname: H\nwebhook_url: https://h.example\n{secret}"
    )

    said = apply(file)

    assert "whsec_" not in said
    secrets = {str(Owner.objects.get().webhook_secret), str(Agent.objects.get().webhook_secret)}
    assert secrets == {"whsec_" + "QUFB" * 10}
    assert apply(file).startswith("= 2 as they are")
    monkeypatch.setenv("HOOK", "short")
    assert "webhook_secret: A signing secret is whsec_" in apply(file)


# --- git buses ------------------------------------------------------------------------------------

BUS = """\
kind: agent
tenant: acme
slug: partner
name: Partner
---
kind: skill
tenant: acme
agent: partner
slug: write
---
kind: git_bus
tenant: acme
agent: partner
participant: assent-acme
url: git@git.example:bus.git
known_hosts: |
  git.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ1c2J1c2J1c2J1c2J1c2J1c2J1c2J1c2J1
methods:
- {method: letters.write, skill: write, is_ours: false}
"""


@pytest.mark.of_app("a2a.doors.git_bus")
def test_a_bus_gets_keys_whose_public_half_is_shown(apply, acme):
    from a2a.doors.git_bus.models import GitBus

    said = apply(BUS)

    row = GitBus.objects.get()
    assert "public deploy key of Partner (acme/partner)" in said
    assert "PRIVATE" in str(row.deploy_key)
    assert "PRIVATE" in str(row.signing_key)
    assert "PRIVATE" not in said + exported()
    assert apply(exported()).startswith("= 4 as they are")
    sealed = json.loads(Event.objects.get(kind="bus_added").details)["edits"]
    assert sealed["methods"] == [[], ["letters.write ← write"]]


@pytest.mark.of_app("a2a.doors.git_bus")
def test_a_password_goes_to_no_other_server_and_a_method_is_done_where_it_can_be(
    apply, acme, monkeypatch
):
    from a2a.doors.git_bus.models import GitBus

    monkeypatch.setenv("BUS_TOKEN", "b-4711")
    over_https = BUS.replace("git@git.example:bus.git", "https://git.example/bus.git")
    assert "!" not in apply(f"{over_https}password: {{env: BUS_TOKEN}}\n")
    assert str(GitBus.objects.get().password) == "b-4711"

    refused = apply(over_https.replace("is_ours: false", "is_ours: true"))
    apply(over_https.replace("https://git.example", "https://evil.example"))

    assert "letters.write: the skill write is done there: is_ours is false." in refused
    assert str(GitBus.objects.get().password) == ""
    sealed = json.loads(Event.objects.filter(kind="bus_changed").latest("pk").details)["edits"]
    assert sealed["new_password"] == ["not shown", ""]
    inline = over_https.replace("https://git", "https://me:pw@git")
    assert "Put the access token into its own field" in apply(inline)
