"""Operators keep the skills of their tenants on the desk; changes are sealed."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.urls import reverse

from a2a.models import RemoteAgent, Skill
from approvals.web.settings.connections.skill_forms import SkillForm
from ledger.models import Agent, Event, Watched

pytestmark = pytest.mark.django_db
NEW = {
    "name": "Translate",
    "slug": "translate",
    "input_schema": '{"type": "object"}',
    "output_schema": "",
    "timeout_0": "2",
    "timeout_1": "3600",
    "lease_0": "1.5",
    "lease_1": "60",
    "question_ttl_0": "10",
    "question_ttl_1": "60",
    "retention_0": "",
    "retention_1": "60",
    "max_attempts": "3",
    "tags": "words, texts",
    "is_active": "on",
}


def page_of(skill) -> str:
    return reverse("desk:connection-skill", args=[skill.pk])


def as_shown(page) -> dict[str, str]:
    """What a browser would send of the form, if nothing was changed."""
    form = page.context["form"]
    sent: dict[str, str] = {}
    for field in form:
        value, name = field.value(), field.html_name
        widget = field.field.widget
        if hasattr(widget, "decompress"):
            number, unit = widget.decompress(value)
            sent |= {f"{name}_0": "" if number is None else number, f"{name}_1": unit}
            initial = "" if value is None else value
        elif isinstance(value, bool):
            sent |= {name: "on"} if value else {}
            initial = value
        else:
            initial = "" if value is None else value
            initial = ",".join(map(str, initial)) if isinstance(initial, list) else initial
            sent[name] = initial
        sent[field.html_initial_name] = initial
    return sent


def test_a_skill_is_added_on_a_page_and_offered(as_olga, worker):
    page = as_olga.post(reverse("desk:connection-skill-new"), {**NEW, "agent": worker.pk})

    skill = Skill.objects.get()
    assert page.headers["Location"] == page_of(skill)
    assert (skill.tenant, skill.timeout, skill.lease) == (
        "acme",
        timedelta(hours=2),
        timedelta(seconds=90),
    )
    assert (skill.input_schema, skill.output_schema) == ({"type": "object"}, {})
    assert skill.tags == ["words", "texts"]
    event = Event.objects.get(kind="skill_added")
    assert json.loads(event.details)["edits"]["name"] == [None, "Translate"]
    assert (event.via, event.principal_name) == ("web", "Olga Novak")
    assert "Translate" in as_olga.get(reverse("desk:connections")).content.decode()


def test_a_name_that_the_tenant_has_already_is_refused(as_olga, worker, helpdesk, consolidate):
    sent = {**NEW, "agent": helpdesk.pk, "slug": "consolidate"}

    page = as_olga.post(reverse("desk:connection-skill-new"), sent)

    assert page.status_code == 422
    assert "There is such a skill already" in page.content.decode()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("input_schema", '{"type": 7}', "is not valid under any of"),
        ("output_schema", "{", "valid JSON"),
        ("lease_0", "0", "longer than nothing"),
        ("timeout_0", "soon", "Write a number"),
        ("timeout_0", "1e300", "no century"),
        ("timeout_1", "week", "Write a number"),
        ("lease_0", "", "This field is required"),
        ("retention_0", "nan", "Write a number"),
        ("open_to", "two words", "letters, numbers"),
    ],
)
def test_what_cannot_work_is_said_in_the_form(as_olga, consolidate, field, value, words):
    page = as_olga.post(page_of(consolidate), {**NEW, field: value})

    assert page.status_code == 422
    assert words in page.content.decode().replace("&#x27;", "'")
    assert not Event.objects.filter(kind="skill_changed").exists()


def test_only_what_this_person_changed_is_saved_and_sealed(as_olga, consolidate):
    sent = as_shown(as_olga.get(page_of(consolidate)))
    Skill.objects.filter(pk=consolidate.pk).update(name="Changed meanwhile", tags=["a"])

    assert as_olga.post(page_of(consolidate), sent).status_code == 302
    assert not Event.objects.filter(kind="skill_changed").exists(), "nothing was changed"
    sent |= {"lease_0": "5", "lease_1": "60", "is_active": ""}
    as_olga.post(page_of(consolidate), sent)

    consolidate.refresh_from_db()
    assert (consolidate.name, consolidate.tags) == ("Changed meanwhile", ["a"])
    assert (consolidate.lease, consolidate.is_active) == (timedelta(minutes=5), False)
    edits = json.loads(Event.objects.get(kind="skill_changed").details)["edits"]
    assert edits == {"lease": ["0:01:00", "0:05:00"], "is_active": [True, False]}


def test_of_a_remote_agent_the_card_says_what_a_skill_is(as_olga, acme):
    far = Agent.objects.create(tenant=acme, slug="far", name="Far")
    skill = Skill.objects.create(agent=far, slug="echo", name="Echo", drift="the skill is gone.")
    card = Watched.objects.create(kind="agent_card")
    RemoteAgent.objects.create(agent=far, url="https://far.example", watched=card)

    page = as_olga.get(page_of(skill))
    as_olga.post(page_of(skill), {**NEW, "name": "Other"})

    assert "the skill is gone." in page.content.decode()
    assert not {"name", "input_schema"} & set(page.context["form"].fields)
    skill.refresh_from_db()
    assert (skill.name, skill.lease) == ("Echo", timedelta(seconds=90))
    agents = as_olga.get(reverse("desk:connection-skill-new")).context["form"].fields["agent"]
    assert far not in agents.queryset


def test_skills_of_other_tenants_are_not_there(as_olga, as_alice, stranger):
    theirs = Skill.objects.create(agent=stranger, slug="theirs", name="Theirs")

    assert "Theirs" not in as_olga.get(reverse("desk:connections")).content.decode()
    assert as_olga.get(page_of(theirs)).status_code == 404
    assert as_olga.post(page_of(theirs), NEW).status_code == 404
    refused = as_olga.post(reverse("desk:connection-skill-new"), {**NEW, "agent": stranger.pk})
    assert refused.status_code == 422
    assert as_alice.get(reverse("desk:connections")).status_code == 403


def test_every_field_of_the_form_has_its_place_on_the_page(as_olga, consolidate):
    form = as_olga.get(page_of(consolidate)).context["form"]
    assert isinstance(form, SkillForm)

    shown = [*form.what, *form.schemas, *form.work, *form.askers, form["is_active"]]

    assert {field.name for field in shown} == set(form.fields)


ODD = {
    "unit of 400 digits": {"timeout_1": "9" * 400},
    "unit that is not offered": {"timeout_1": "7"},
    "tiny": {"timeout_0": "0.00000001", "timeout_1": "1"},
    "tiny lease": {"lease_0": "0.00000001", "lease_1": "1"},
    "negative": {"timeout_0": "-1"},
    "no number": {"timeout_0": "nan"},
    "without end": {"timeout_0": "1e308"},
    "nul": {"input_schema": '{"title": "\\u0000"}'},
    "nan": {"input_schema": '{"default": NaN}'},
    "infinity": {"output_schema": '{"default": Infinity}'},
    "too large a number": {"input_schema": '{"default": 1e400}'},
    "surrogate": {"input_schema": '{"default": "\\ud800"}'},
    "deep": {"input_schema": '{"default": ' + "[" * 5000 + "]" * 5000 + "}"},
    "deeper": {"input_schema": "[" * 40_000 + "]" * 40_000},
    "4000 digits": {"input_schema": '{"default": ' + "9" * 4000 + "}"},
    "5000 digits": {"input_schema": '{"default": ' + "9" * 5000 + "}"},
    "large": {"input_schema": '{"default": "' + "x" * 100_000 + '"}'},
}


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_kept_is_refused_in_the_form(as_olga, worker, name):
    page = as_olga.post(
        reverse("desk:connection-skill-new"), {**NEW, "agent": worker.pk, **ODD[name]}
    )

    assert page.status_code == 422
    sent = next(iter(ODD[name]))
    assert list(page.context["form"].errors) == [sent.removesuffix("_0").removesuffix("_1")]
    assert not Skill.objects.exists()


def test_a_schema_that_cannot_be_kept_is_refused_of_a_skill_that_is_there(as_olga, consolidate):
    sent = as_shown(as_olga.get(page_of(consolidate)))
    sent |= {"input_schema": '{"default": NaN}', "initial-input_schema": "[" * 5000}

    assert as_olga.post(page_of(consolidate), sent).status_code == 422
