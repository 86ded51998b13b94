"""Who leaves the company leaves the desk at once: pages, sockets, Slack, keys and letters."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections

from approvals.models import SignInLink, SlackIdentity, SlackWorkspace
from approvals.people.sign_in import new_link
from approvals.slack.identities import person_behind
from ledger.foundation import doorbell
from tests.approvals.test_live_ends import closed_with, opened
from tests.processes import Product, running, until
from tests.scim.conftest import TOKEN, Directory

OFF = {"op": "Replace", "path": "active", "value": "False"}


@pytest.fixture(scope="module")
def live(django_db_setup: None, django_db_blocker) -> Iterator[Product]:
    settings = {"ASSENT_SCIM_TOKEN": TOKEN, "ASSENT_SCIM_TENANT": "acme"}
    with (
        django_db_blocker.unblock(),
        running("web", ASSENT_SOCKET_CHECK_S="3600", **settings) as product,
    ):
        yield product


@pytest.mark.django_db(transaction=True)
def test_an_open_desk_is_closed_at_once_by_what_entra_sends(live, as_alice, as_bob, alice_user):
    call_command("scim_link", "alice")
    with opened(live, as_bob) as bobs, opened(live, as_alice) as alices:
        until(lambda: any(b"desk.changed" in one for one in doorbell.redis().pubsub_channels()))
        answer = httpx.patch(
            f"http://localhost:{live.web_port}/scim/v2/Users/{alice_user.pk}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            json={
                "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
                "Operations": [OFF],
            },
        )

        assert (answer.status_code, answer.json()["active"]) == (200, False)
        assert closed_with(alices) == 4401
        bobs.send("{}")
        assert "changed" in bobs.recv(timeout=10)
    assert "/sign-in/" in as_alice.get("/").headers["Location"]


def test_sessions_links_and_slack_end_with_the_account(directory, as_alice, alice_user):
    workspace = SlackWorkspace.objects.create(team_id="T1", name="Acme", bot_user_id="B1")
    SlackIdentity.objects.create(workspace=workspace, slack_user_id="U1", user=alice_user)
    new_link("invite", alice_user)
    call_command("scim_link", "alice")
    linked = person_behind(workspace, "U1", "T1")
    directory.ask("DELETE", f"Users/{alice_user.pk}")

    assert linked == alice_user
    assert directory.answer.status_code == 204
    assert as_alice.get("/").status_code == 302
    assert not SignInLink.objects.filter(user=alice_user, used_at=None).exists()
    assert person_behind(workspace, "U1", "T1") is None


@pytest.mark.django_db(transaction=True)
def test_the_last_two_operators_do_not_leave_at_once(olga_user, otto_user):
    """Each is the other's last one."""
    keys = [olga_user.pk, otto_user.pk]
    for name in ("olga", "otto"):
        call_command("scim_link", name)
    together, statuses = threading.Barrier(2), []

    def leave(key: int) -> None:
        directory = Directory()
        together.wait()
        statuses.append(directory.patch(f"Users/{key}", OFF))
        connections.close_all()

    leavers = [threading.Thread(target=leave, args=[key]) for key in keys]
    for each in leavers:
        each.start()
    for each in leavers:
        each.join()

    assert sorted(statuses) == [200, 409]
    assert User.objects.filter(pk__in=keys, is_active=True).count() == 1
