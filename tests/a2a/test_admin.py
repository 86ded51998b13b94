"""Operators keep skills and remote agents of their own tenants, and look at tasks."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from a2a import remote as remote_agents
from a2a.models import RemoteAgent, Skill
from approvals.models import Membership, Role
from tests.a2a.test_remotes import FastAgent, fast_agent, until_it_is  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def as_operator(olga_user):
    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.filter(content_type__app_label="a2a"))
    client = Client()
    client.force_login(olga_user)
    return client


def test_every_page_opens_and_shows_the_tenants_own_only(
    as_operator, a_claimed_task, consolidate, globex, stranger
):
    task = a_claimed_task()
    Skill.objects.create(agent=stranger, slug="theirs", name="Theirs")

    for page in ("task", "skill", "question", "remoteagent"):
        assert as_operator.get(f"/admin/a2a/{page}/").status_code == 200
    listed = as_operator.get("/admin/a2a/skill/").content.decode()
    assert "consolidate" in listed
    assert "theirs" not in listed
    page = as_operator.get(f"/admin/a2a/task/{task.pk}/change/").content.decode()
    assert "Conversation, artifacts and history" in page
    found = as_operator.get(f"/admin/a2a/task/?q={task.pk}").content.decode()
    assert task.short_id in found


def test_a_schema_that_is_none_is_refused_in_the_form(as_operator, consolidate):
    there = f"/admin/a2a/skill/{consolidate.pk}/change/"
    said = {
        "name": "x",
        "input_schema": '{"type": 7}',
        "output_schema": "{}",
        "timeout": "1:00:00",
        "lease": "0:01:00",
        "question_ttl": "0:10:00",
        "max_attempts": "3",
    }

    page = as_operator.post(there, said)

    assert page.status_code == 200
    assert "is not valid under any of" in page.content.decode()


@pytest.mark.slow
def test_a_remote_agent_is_registered_by_its_address(as_operator, acme, fast_agent):  # noqa: F811
    said = {"tenant": "acme", "slug": "fast", "url": fast_agent.url, "required_capabilities": ""}
    answer = as_operator.post("/admin/a2a/remoteagent/add/", said)
    assert answer.status_code == 302, answer.content.decode()
    remote = RemoteAgent.objects.get()
    assert (remote.card_version, str(remote.agent)) == ("2.0.1", "Fast agent (acme/fast)")

    fast_agent.kill()
    again = as_operator.post(
        "/admin/a2a/remoteagent/",
        {"action": "fetch_again", "_selected_action": [str(remote.pk)]},
        follow=True,
    )
    assert "All connection attempts failed" in again.content.decode()
    refused = as_operator.post("/admin/a2a/remoteagent/add/", {**said, "slug": "other"})
    assert "All connection attempts failed" in refused.content.decode()
    assert RemoteAgent.objects.count() == 1


@pytest.mark.slow
def test_an_operator_sends_a_sample_task_and_sees_how_it_ended(
    as_operator,
    olga_user,
    acme,
    fast_agent,  # noqa: F811
):
    remote = remote_agents.register(acme, slug="fast", url=fast_agent.url)
    address = "/admin/a2a/remoteagent/"
    change, send = f"{address}{remote.pk}/change/", {"action": "send_sample"}
    send["_selected_action"] = str(remote.pk)

    none = as_operator.post(address, send, follow=True)
    assert "it has no sample task" in none.content.decode()
    refused = as_operator.post(change, {"sample": '{"skill": "other", "input": 1}'})
    assert "one of its skills" in refused.content.decode()
    as_operator.post(change, {"sample": '{"skill": "echo", "input": {"a": 1}}'})
    as_operator.post(address, send)

    task = RemoteAgent.objects.get().probe
    assert task.submitted_by == f"user:{olga_user.pk}"
    until_it_is(task, "completed")
    assert task.result == {"echo": {"a": 1}}
    for page in (address, change, "/ops/"):
        assert f"/tasks/{task.pk}/" in as_operator.get(page).content.decode()


def test_of_another_tenant_no_agent_can_be_registered(as_operator, globex, olga_user):
    said = {"tenant": "globex", "slug": "x", "url": "https://example.com/"}
    page = as_operator.post("/admin/a2a/remoteagent/add/", said)

    assert "not one of the available choices" in page.content.decode()
    assert not Membership.objects.filter(user=olga_user, tenant=globex, role=Role.OPERATOR).exists()
