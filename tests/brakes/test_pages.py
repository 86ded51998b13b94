"""People stop and let go on at the desk, by a command, and read what stands still over REST."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from ledger.models import Brake, Transaction
from ledger.states import State
from tests.brakes.conftest import WHY
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
HELPDESK = "agent:acme/helpdesk"


def page(**asked: str) -> str:
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    return f"{reverse('desk:stop')}?{query}"


def said(**changes: str) -> dict[str, str]:
    return {"scope": "0", "lasts": "900", "why": WHY, **changes}


def test_a_manager_stops_an_agent_and_everybody_of_the_tenant_sees_it(
    as_alice, as_vera, as_carol, helpdesk, a_payment
):
    row = a_payment()

    answer = as_alice.post(page(tenant="acme", agent=HELPDESK), said(), follow=True)

    assert "nothing of it begins any more" in answer.content.decode()
    brake = Brake.objects.get()
    assert (brake.tenant, brake.agent, brake.tool, brake.why) == ("acme", HELPDESK, "", WHY)
    assert brake.until - brake.at == timedelta(minutes=15)
    shown = as_vera.get("/").content.decode()
    assert WHY in shown
    assert "Let it go on" not in shown
    assert "Stopped</span>" in as_alice.get("/").content.decode()
    assert WHY not in as_carol.get("/").content.decode()
    item = as_alice.get(reverse("desk:transaction", args=[row.pk])).content.decode()
    assert "data-approve" not in item
    assert f"reject-{row.pk}" in item


def test_approving_it_is_refused_with_the_reason(as_alice, a_payment, stop):
    row = a_payment()
    stop("acme", tool="pay")

    address = reverse("desk:transaction-approve", args=[row.pk])
    answer = as_alice.post(address, {"digest": row.intent_digest})

    assert answer.status_code == 409
    assert WHY in answer.content.decode()
    rejected = as_alice.post(
        reverse("desk:transaction-reject", args=[row.pk]),
        {"digest": row.intent_digest, "reason": "No."},
    )
    assert rejected.status_code == 302
    assert Transaction.objects.get().state == State.ROLLING_BACK


def test_who_put_it_or_an_operator_lets_it_go_on(as_alice, as_bob, as_olga, helpdesk):
    for client, status in ((as_bob, 403), (as_alice, 302)):
        if not Brake.objects.exists():
            as_alice.post(page(tenant="acme", agent=HELPDESK), said())
        answer = client.post(reverse("desk:brake-lift", args=[Brake.objects.get().pk]))
        assert answer.status_code == status
    assert not Brake.objects.standing().exists()

    as_alice.post(page(tenant="acme", agent=HELPDESK), said())
    brake = Brake.objects.standing().get()
    assert "Let it go on" in as_olga.get("/").content.decode()
    as_olga.post(reverse("desk:brake-lift", args=[brake.pk]), {"next": "/history/"})
    assert not Brake.objects.standing().exists()


def test_nobody_lifts_the_brake_of_another_tenant_or_of_all(as_carol, as_olga, stop):
    for brake in (stop("acme"), stop()):
        assert as_carol.post(reverse("desk:brake-lift", args=[brake.pk])).status_code in {403, 404}
    assert as_olga.post(reverse("desk:brake-lift", args=[brake.pk])).status_code == 403


@pytest.mark.parametrize(
    ("asked", "statuses"),
    [
        ({"tenant": "acme", "agent": HELPDESK}, (200, 200, 403)),
        ({"tenant": "acme", "tool": "pay"}, (200, 200, 403)),
        ({"tenant": "acme"}, (403, 200, 403)),
        ({}, (403, 200, 403)),
        ({"tenant": "globex"}, (404, 404, 404)),
        ({"tenant": "acme", "agent": "agent:globex/helpdesk"}, (404, 404, 404)),
        ({"tenant": "acme", "agent": "user:1"}, (404, 404, 404)),
        ({"tenant": "acme", "tool": "nothing"}, (404, 404, 404)),
    ],
)
def test_managers_stop_agents_and_tools_and_operators_the_tenant(
    as_alice, as_olga, as_vera, helpdesk, stranger, asked, statuses
):
    got = tuple(client.get(page(**asked)).status_code for client in (as_alice, as_olga, as_vera))
    assert got == statuses


def test_a_manager_cannot_choose_what_the_page_does_not_offer(as_alice, helpdesk):
    answer = as_alice.post(page(tenant="acme", agent=HELPDESK), said(scope="1"))
    assert answer.status_code == 422
    assert not Brake.objects.exists()


def test_only_a_superuser_stops_everything(as_olga, olga_user):
    assert "of every tenant" not in as_olga.get(page()).content.decode()
    olga_user.is_superuser = True
    olga_user.save()

    client = signed_in(olga_user)
    client.post(
        page(), said(scope="2" if 'value="2"' in client.get(page()).content.decode() else "1")
    )

    assert Brake.objects.get().tenant == ""


def test_people_choose_to_keep_what_agents_propose(as_alice, as_vera, helpdesk):
    address = page(tenant="acme", agent=HELPDESK)
    assert (
        "Keep what agents propose meanwhile; it waits here"
        in as_alice.get(address).content.decode()
    )

    as_alice.post(address, said(keeps="on"))

    assert Brake.objects.get().keeps
    assert "what agents propose is kept" in as_vera.get("/").content.decode()
    as_alice.post(address, said())
    assert not Brake.objects.latest("pk").keeps


def test_until_the_end_of_today(as_alice, helpdesk):
    as_alice.post(page(tenant="acme", agent=HELPDESK), said(lasts="today"))
    brake = Brake.objects.get()
    assert timedelta() < brake.until - brake.at <= timedelta(days=1)


def test_a_reason_is_needed(as_alice, helpdesk):
    for why in ("", "a\u202eb"):
        answer = as_alice.post(page(tenant="acme", agent=HELPDESK), said(why=why))
        assert answer.status_code == 422
    assert not Brake.objects.exists()


def test_the_command_puts_lists_and_lifts(helpdesk):
    out = StringIO()
    call_command("brake", "put", tenant="acme", agent=HELPDESK, why=WHY, minutes=5, stdout=out)
    call_command("brake", "put", "--tenant", "acme", "--why", WHY, "--keep", stdout=out)
    assert list(Brake.objects.order_by("pk").values_list("keeps", flat=True)) == [False, True]
    call_command("brake", "list", stdout=out)
    assert out.getvalue().count(WHY) == 4
    assert out.getvalue().count("proposals are kept") == 2
    brake, kept = Brake.objects.order_by("pk")
    call_command("brake", "lift", str(kept.pk), stdout=out)
    call_command("brake", "lift", str(brake.pk), stdout=out)
    assert not Brake.objects.standing().exists()

    unknown = ["put", "--tenant", "acme", "--tool", "refnud", "--why", WHY]
    for wrong in (["lift", "0"], ["put", "--tenant", "nowhere", "--why", WHY], unknown):
        with pytest.raises(CommandError):
            call_command("brake", *wrong)


def test_agents_read_what_stands_still_in_their_tenant(helpdesk, agent_client, stop):
    stop("acme", tool="pay", keeps=True)
    stop()
    stop("globex")

    assert agent_client(helpdesk).get("/brakes").status_code == 403
    answer = agent_client(helpdesk, ["read_all"]).get("/brakes")

    listed = answer.json()["brakes"]
    assert [(each["tool"], each["is_for_all_tenants"]) for each in listed] == [
        ("pay", False),
        ("", True),
    ]
    assert {each["why"] for each in listed} == {WHY}
    assert [(each["keeps"], each["is_hold"]) for each in listed] == [(True, False), (False, False)]
