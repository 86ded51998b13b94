"""What a card of a stranger may say, and what a confirmation of it does: never more than shown."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import pytest

from a2a.models import RemoteAgent, Skill
from approvals.web.settings.connections import remote_forms
from ledger.foundation.crypto.encryption import encrypt
from ledger.models import Agent, Event
from ledger.tools import watched
from tests.a2a.card_server import EXTENSION, card, card_server  # noqa: F401  (fixture)

pytestmark = pytest.mark.django_db
NEW = "/connections/agents/new/"


@pytest.fixture
def show(card_server):  # noqa: F811
    """Have the card read and shown."""

    def shown(client, **more):
        return client.post(NEW, {"tenant": "acme", "slug": "fast", "url": card_server.url, **more})

    return shown


def confirm(client, page, **options) -> Any:
    assert page.status_code == 200, page.context["form"].errors
    return client.post(NEW, {"wanted": page.context["kept"]}, **options)


def edits_sealed_last() -> dict[str, Any]:
    event = Event.objects.filter(kind="remote_agent_added").order_by("pk").last()
    assert event is not None
    edits: dict[str, Any] = json.loads(event.details)["edits"]
    return edits


# --- what is sealed, and what is replaced ---------------------------------------------------------


def test_all_that_was_registered_is_sealed_and_no_token(as_olga, acme, card_server, show):  # noqa: F811
    card_server.card = card(capabilities={"streaming": True})

    confirm(as_olga, show(as_olga, token="t1", required_capabilities=["streaming"], wants_push="1"))

    assert edits_sealed_last() == {
        "url": [None, card_server.url],
        "token": [None, "not shown"],
        "required_capabilities": [[], ["streaming"]],
        "wants_push": [False, True],
    }


def test_a_new_token_for_the_same_address_is_sealed(as_olga, acme, show):
    confirm(as_olga, show(as_olga, token="one"))
    confirm(as_olga, show(as_olga, token="two"))

    assert edits_sealed_last() == {"token": ["not shown", "another, not shown"]}
    confirm(as_olga, show(as_olga, token="two"))
    assert edits_sealed_last() == {}


def test_an_old_confirmation_does_not_undo_a_later_one(as_olga, as_otto, acme, show):
    old = show(as_olga, token="leaked")
    confirm(as_otto, show(as_otto, token="fresh"))

    page = confirm(as_olga, old, follow=True).content.decode()

    assert "Somebody has registered it since you looked at it" in page
    assert str(RemoteAgent.objects.get().token) == "fresh"
    again = show(as_olga, token="leaked")
    assert again.context["replaces"].agent.slug == "fast"
    confirm(as_olga, again)
    confirm(as_otto, show(as_otto, token="fresh"))
    confirm(as_olga, again)
    assert str(RemoteAgent.objects.get().token) == "fresh", "each confirmation counts once"


def test_a_confirmation_counts_for_a_quarter_of_an_hour(as_olga, olga_user, acme, show):
    shown = show(as_olga)
    facts = asdict(shown.context["wanted"])
    for minutes, count in ((16, 0), (14, 1)):
        since = time.time() - minutes * 60
        kept = encrypt(json.dumps([olga_user.pk, since, facts]), remote_forms.PLACE)
        as_olga.post(NEW, {"wanted": kept})
        assert RemoteAgent.objects.count() == count


def test_an_ordinary_agent_made_meanwhile_is_not_turned_into_a_remote_one(as_olga, acme, show):
    shown = show(as_olga)
    agent = Agent.objects.create(tenant=acme, slug="fast", name="Ours, with workers")
    Skill.objects.create(tenant="acme", agent=agent, slug="ours", name="Ours")

    page = confirm(as_olga, shown, follow=True).content.decode()

    assert "There is such an agent already" in page
    assert not RemoteAgent.objects.exists()
    assert Skill.objects.get(slug="ours").is_active


def test_a_switched_off_agent_is_not_said_to_take_tasks(as_olga, acme, show):
    confirm(as_olga, show(as_olga))
    row = RemoteAgent.objects.get()
    as_olga.post(f"/connections/agents/{row.pk}/switch", {"active": "0"})

    page = confirm(as_olga, show(as_olga), follow=True).content.decode()

    assert "take tasks from now on" not in page
    assert "It is switched off, and is given nothing." in page


# --- hostile cards --------------------------------------------------------------------------------


def with_schemas(schemas: Any) -> dict[str, Any]:
    extension = {"uri": EXTENSION, "params": {"skills": schemas}}
    return card(capabilities={"extensions": [extension]})


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def skill(**more: Any) -> dict[str, Any]:
    return card(skills=[{"id": "e", "name": "n", "description": "", "tags": [], **more}])


UNSTORABLE = {
    "nul in a text": card(description="a\x00b"),
    "nul in a skill": skill(name="n\x00"),
    "nul in a name": card(**{"a\x00": 1}),
    "surrogate": card(description="\ud800"),
    "surrogate in a skill": skill(name="\ud800"),
    "nan": card(x=float("nan")),
    "infinity": card(x=float("inf")),
    "deep": card(x=nested(300)),
    "deeper": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}
ODD = {
    "schemas that are a list": with_schemas({"echo": []}),
    "schemas that are a text": with_schemas({"echo": "x"}),
    "a schema that is a text": with_schemas({"echo": {"input_schema": "x"}}),
    "a schema that is none": with_schemas({"echo": {"input_schema": {"type": 5}}}),
    "tags that are no texts": skill(tags=[1, {}]),
    "a long id": skill(id="e" * 5000, name=""),
    "a long name": card(name="x" * 5000),
    "a version that turns": card(version="\u202e" * 500),
    "odd members": card(**{"\u202e": 2, "": 3}),
}


@pytest.mark.parametrize("name", [*UNSTORABLE, *ODD])
def test_a_hostile_card_is_refused_or_shown(as_olga, acme, card_server, show, name):  # noqa: F811
    card_server.card = {**UNSTORABLE, **ODD}[name]

    shown = show(as_olga)

    if name in UNSTORABLE or shown.status_code == 422:
        assert shown.status_code == 422
        assert shown.context["form"].errors["url"]
        return
    assert confirm(as_olga, shown).status_code == 302
    row = RemoteAgent.objects.get()
    assert as_olga.get(f"/connections/agents/{row.pk}/").status_code == 200


@pytest.mark.parametrize("name", UNSTORABLE)
def test_the_watch_survives_a_card_that_cannot_be_stored(
    as_olga,
    acme,
    card_server,  # noqa: F811
    show,
    name,
):
    confirm(as_olga, show(as_olga))
    row = RemoteAgent.objects.get().watched
    card_server.card = UNSTORABLE[name]

    assert watched.read_now(row.pk)

    row.refresh_from_db()
    assert row.error
    assert row.seen == card()


@pytest.mark.parametrize("name", ["schemas that are a list", "schemas that are a text"])
def test_the_watch_survives_odd_schemas(as_olga, acme, card_server, show, name):  # noqa: F811
    card_server.card = with_schemas({"echo": {"input_schema": {"type": "object"}}})
    confirm(as_olga, show(as_olga))
    row = RemoteAgent.objects.get().watched
    card_server.card = ODD[name]

    watched.read_now(row.pk)

    row.refresh_from_db()
    assert row.held_why == "echo: its input schema has changed."


@pytest.mark.parametrize("name", ["tags that are no texts", "a long name"])
def test_the_watch_says_what_it_makes_of_other_odd_cards(as_olga, acme, card_server, show, name):  # noqa: F811
    confirm(as_olga, show(as_olga))
    row = RemoteAgent.objects.get().watched
    card_server.card = {**ODD[name], "skills": [{"id": "other", "name": "o", "tags": [1, {}]}]}

    watched.read_now(row.pk)

    row.refresh_from_db()
    assert row.held_why.startswith("echo: ")


ADDRESSES = (
    "https://a:b@r.example/",
    "ftp://r.example",
    "https://r.example:99999",
    "https://[::1",
    "http://169.254.169.254/latest",
    "https://xn--\u00e9.example",
    "https://r.example/\u202e",
    "https://" + "a" * 300 + ".example",
    "file:///etc/passwd",
)


@pytest.mark.parametrize("url", ADDRESSES)
def test_an_address_that_is_none_is_refused_in_the_form(as_olga, acme, show, url):
    page = show(as_olga, url=url)

    assert page.status_code == 422
    assert page.context["form"].errors["url"]
