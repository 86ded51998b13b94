"""Which functions Assent carries out is for operators to say, and mostly for two of them."""

from __future__ import annotations

import pytest

from a2a.doors.humanlayer.calls import bindings
from a2a.doors.humanlayer.models import Binding
from ledger.errors import InvalidRequest, NotFound
from ledger.events import four_eyes
from ledger.models import ChangeRequest, Event
from ledger.principals import Principal
from ledger.tools import manifests, registrations
from tests.http_tools.conftest import manifest
from tests.http_tools.test_tool_admin import operator

pytestmark = pytest.mark.django_db
NEW = "/connections/functions/new/"
OLGA = Principal("user", "olga", "Olga")


@pytest.fixture
def olga(acme):
    return operator("olga2", acme)


@pytest.fixture
def omar(acme):
    return operator("omar2", acme)


def add(client, **fields):
    body = {"tenant": "acme", "agent": "", "function": "send_money", "tool": "pay", **fields}
    return client.post(NEW, body, follow=True)


def page_of(row) -> str:
    return f"/connections/functions/{row.pk}/"


def wanted(row) -> str | None:
    """The tool that waits for a second operator."""
    change = bindings.waiting_for(row)
    return None if change is None else change.after["tool"]


def test_what_people_look_at_less_closely_takes_a_second_operator(olga, omar, helpdesk):
    answer = add(olga, agent=helpdesk.pk)

    assert "changes when another operator has confirmed it" in answer.content.decode()
    row = Binding.objects.get()
    change = ChangeRequest.objects.get()
    assert (row.tool, wanted(row), change.loosens) == ("", "pay", ["consequence_level"])
    waiting = f"/changes/{change.pk}/"
    body = {"seen": change.sha256}
    assert "has to confirm it" in olga.get(waiting).content.decode()
    olga.post(f"{waiting}confirm", body)
    assert Binding.objects.get().tool == ""

    assert "IRREVERSIBLE" in omar.get(waiting).content.decode()
    omar.post(f"{waiting}confirm", body)

    assert (Binding.objects.get().tool, wanted(row)) == ("pay", None)
    event = Event.objects.get(kind="function_bound")
    assert event.principal_name == "Omar2"
    assert '"asked_by_name":"Olga2"' in event.details.replace(": ", ":")


def test_a_stricter_tool_is_bound_by_one_operator(olga, helpdesk):
    answer = add(olga, tool="scuttle")

    assert answer.status_code == 200
    for address in ("/connections/", f"/agents/{helpdesk.pk}/"):
        page = olga.get(address).content.decode()
        assert page_of(Binding.objects.get()) in page
        assert "carried out with <code>scuttle</code>" in page
    assert Binding.objects.get().tool == "scuttle"
    assert Event.objects.get(kind="function_bound").principal_name == "Olga2"


def test_leaving_it_to_the_agent_takes_two_where_more_people_signed(olga, acme):
    bindings.bind(acme, None, "send_money", "scuttle", by=OLGA, via="admin")
    row = Binding.objects.get()

    olga.post(page_of(row), {"tool": "", "initial-tool": "scuttle"})

    row.refresh_from_db()
    assert (row.tool, wanted(row)) == ("scuttle", "")
    assert set(ChangeRequest.objects.get().loosens) == {"quorum", "risk_level"}


def test_withdrawing_the_tool_first_is_no_way_around(acme):
    strict = manifests.read(manifest("https://bank.example/tools", contract={"quorum": 2}))
    registrations.register(acme, strict, by=OLGA, via="admin")
    bindings.bind(acme, None, "send_money", strict.name, by=OLGA, via="admin")

    registrations.withdraw(acme, strict.name, by=OLGA, via="admin")
    row = bindings.bind(acme, None, "send_money", "", by=OLGA, via="admin")

    assert (row.tool, wanted(row)) == (strict.name, "")
    assert ChangeRequest.objects.get().loosens == ["quorum"]


def test_what_was_declined_or_changed_meanwhile_is_not_confirmed(olga, omar, acme):
    add(olga)
    row = Binding.objects.get()
    first = ChangeRequest.objects.get()

    olga.post(page_of(row), {"tool": "write_note"})
    omar.post(f"/changes/{first.pk}/confirm", {"seen": first.sha256})  # what he saw was replaced
    assert (Binding.objects.get().tool, wanted(row)) == ("", "write_note")
    second = bindings.waiting_for(row)
    Binding.objects.update(tool="scuttle")
    omar.post(
        f"/changes/{second.pk}/confirm", {"seen": second.sha256}
    )  # it would replace something else by now
    assert (Binding.objects.get().tool, wanted(row)) == ("scuttle", "write_note")
    omar.post(f"/changes/{second.pk}/decline")
    Binding.objects.update(tool="")
    omar.post(f"/changes/{second.pk}/confirm", {"seen": second.sha256})

    assert (Binding.objects.get().tool, wanted(row)) == ("", None)
    assert Event.objects.get(kind="function_binding_declined").principal_name == "Omar2"
    with pytest.raises(NotFound):
        four_eyes.decline(second, by=OLGA, via="admin")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tool": "nothing"}, "Select a valid choice"),
        ({"function": "send.money"}, "letters of ASCII"),
    ],
)
def test_what_cannot_be_bound_is_said_in_the_form(olga, fields, words):
    assert words in add(olga, **fields).content.decode()
    assert not Binding.objects.exists()


def test_a_function_has_one_row_and_an_agent_is_of_the_tenant(olga, stranger):
    add(olga, tool="scuttle")

    assert "There is such a function already" in add(olga).content.decode()
    assert add(olga, agent=stranger.pk).status_code == 422
    assert Binding.objects.count() == 1


def test_the_form_begins_with_the_agent_from_whose_page_one_came(olga, helpdesk, stranger):
    form = olga.get(f"{NEW}?agent={helpdesk.pk}").context["form"]
    assert form.initial == {"agent": helpdesk.pk, "tenant": "acme"}

    for other in (stranger.pk, "x", "9" * 40):
        assert olga.get(f"{NEW}?agent={other}").context["form"].initial == {}


def test_an_agent_of_another_tenant_is_refused_below_the_form_too(acme, stranger):
    with pytest.raises(InvalidRequest):
        bindings.bind(acme, stranger, "send_money", "scuttle", by=OLGA, via="admin")


def test_operators_of_other_tenants_see_and_change_nothing(globex, olga):
    add(olga)
    row = Binding.objects.get()
    other = operator("greta", globex)

    change = ChangeRequest.objects.get()
    assert other.get(f"/changes/{change.pk}/").status_code == 404
    body = {"seen": change.sha256}
    assert other.post(f"/changes/{change.pk}/confirm", body).status_code == 404
    assert "send_money" not in other.get("/connections/").content.decode()
    assert other.get(page_of(row)).status_code == 404
    assert other.post(page_of(row), {"tool": "scuttle"}).status_code == 404
    assert wanted(row) == "pay"


def test_a_stricter_tool_replaces_what_waits_and_says_so(olga, omar):
    add(olga)
    row = Binding.objects.get()

    omar.post(page_of(row), {"tool": "scuttle"})

    row.refresh_from_db()
    assert (row.tool, wanted(row)) == ("scuttle", None)
    declined = Event.objects.get(kind="function_binding_declined")
    assert (declined.principal_name, '"tool":"pay"' in declined.details) == ("Omar2", True)


def test_an_unchanged_function_does_not_undo_what_a_colleague_set(olga, acme):
    row = Binding.objects.create(tenant=acme, agent=None, function="send_money", tool="pay")
    page = olga.get(page_of(row))
    tool = page.context["form"]["tool"]
    assert f'name="{tool.html_initial_name}"' in page.content.decode()
    sent = {tool.html_name: tool.value(), tool.html_initial_name: tool.value()}
    Binding.objects.filter(pk=row.pk).update(tool="")  # a colleague leaves it to the agent again

    olga.post(page_of(row), sent)

    row.refresh_from_db()
    assert row.tool == ""
    assert not ChangeRequest.objects.exists()
