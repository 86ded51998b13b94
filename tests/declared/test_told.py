"""Slack's routes in files; and a plan that somebody has overtaken."""

from __future__ import annotations

from datetime import timedelta

import pytest

from approvals import declared
from approvals.declared import Run
from approvals.models import SlackRoute, SlackWorkspace
from ledger.events import command_principal
from ledger.models import Agent, Event
from ledger.principals import Surface
from tests.declared.conftest import exported, kinds_since

pytestmark = pytest.mark.django_db
ROUTE = "kind: slack_route\ntenant: acme\nworkspace: T0ACME\n"


@pytest.fixture
def workspace(acme):
    row = SlackWorkspace.objects.create(team_id="T0ACME", name="Acme", bot_user_id="U0BOT")
    row.tenants.add(acme)
    return row


@pytest.mark.of_app("approvals.slack")
def test_a_route_is_made_changed_and_removed(apply, workspace, alice_user):
    to_alice = f"{ROUTE}approver: alice\n"
    to_all = f"{ROUTE}tool: pay\nchannel: C0PAY\n"
    apply(f"{to_alice}---\n{to_all}")
    apply(f"{to_all}escalate_to: C0BOSSES\nescalate_after_s: 90\n")

    assert SlackRoute.objects.get(tool="pay").escalate_after == timedelta(seconds=90)
    assert SlackRoute.objects.get(tool="").approver == alice_user
    assert "escalate_after_s: 90.0" in exported()
    said = apply(f"{to_all}escalate_to: C0BOSSES\nescalate_after_s: 90\n", "--prune")
    assert "- slack_route acme/T0ACME everything alice is removed" in said
    assert SlackRoute.objects.count() == 1
    kinds = ["slack_route_added", "slack_route_added", "slack_route_changed", "slack_route_removed"]
    assert [kind for kind in kinds_since(0) if kind.startswith("slack")] == kinds


@pytest.mark.of_app("approvals.slack")
def test_a_route_of_another_tenant_or_to_a_stranger_is_refused(
    apply, workspace, globex, carol_user
):
    elsewhere = f"{ROUTE}channel: C0PAY\n".replace("acme", "globex")

    assert "The workspace does not serve this tenant." in apply(elsewhere)
    assert "there is no person carol of acme" in apply(f"{ROUTE}approver: carol\n")
    assert "name a channel or an approver, one of the two" in apply(ROUTE)
    unknown = apply(f"{ROUTE}channel: C0PAY\n".replace("T0ACME", "T0OTHER"))
    assert "! slack_route acme/T0OTHER everything C0PAY: T0OTHER is not connected" in unknown
    assert not SlackRoute.objects.exists()


def test_what_somebody_changed_after_the_plan_was_made_stays(helpdesk, tmp_path):
    file = tmp_path / "agents.yaml"
    file.write_text("kind: agent\ntenant: acme\nslug: helpdesk\nname: From a file\n")
    steps = declared.plan(declared.read(file), prune=False)
    Agent.objects.filter(pk=helpdesk.pk).update(name="From the desk")
    refused = []

    run = Run(command_principal(), Surface.COMMAND)
    done = declared.carry_out(steps, run, lambda step, why: refused.append((step.name, why)))

    overtaken = "Somebody has changed it since the plan was made: apply the files again."
    assert (done, refused) == (0, [("agent acme/helpdesk", overtaken)])
    helpdesk.refresh_from_db()
    assert helpdesk.name == "From the desk"
    assert not Event.objects.exists()
