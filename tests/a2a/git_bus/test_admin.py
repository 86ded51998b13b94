"""Operators keep the git buses of their tenants; keys are never shown, changes are sealed."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from a2a.doors.git_bus.models import BusMethod, BusRequest, GitBus, Progress, Wish
from a2a.doors.git_bus.repository import access
from a2a.models import Skill
from ledger.models import Agent, Event

pytestmark = pytest.mark.django_db

SIGNER = (
    "ann@partner.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ1c2J1c2J1c2J1c2J1c2J1c2J1c2J1c2J1"
)


@pytest.fixture
def as_operator(olga_user):
    olga_user.is_staff = True
    olga_user.save()
    rights = Permission.objects.filter(content_type__app_label__in=["git_bus", "ledger"])
    olga_user.user_permissions.set(rights)
    client = Client()
    client.force_login(olga_user)
    return client


@pytest.fixture
def partner(acme):
    return Agent.objects.create(tenant=acme, slug="partner", name="Partner")


def form(agent, *methods, **fields):
    """What the form of a bus sends."""
    sent = {
        "agent": agent.pk,
        "participant": "assent_acme",
        "is_active": "on",
        "url": "https://git.example/bus.git",
        "branch": "main",
        "strangers": "ask",
        "poll_every": "0:00:30",
        "stuck_after": "1:00:00",
        "methods-TOTAL_FORMS": len(methods),
        "methods-INITIAL_FORMS": 0,
    }
    for place, (method, skill, is_ours) in enumerate(methods):
        sent |= {f"methods-{place}-method": method, f"methods-{place}-skill": skill}
        sent |= {f"methods-{place}-is_ours": "on"} if is_ours else {}
    return {**sent, **fields}


def errors_on(page) -> str:
    return " ".join(
        re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', page.content.decode(), re.S)
    )


def test_a_bus_is_added_with_its_methods_and_a_key_that_is_made_here(
    as_operator, partner, consolidate
):
    sent = form(partner, ("draft.facts", "consolidate", True), make_deploy_key="on")

    answer = as_operator.post("/admin/git_bus/gitbus/add/", sent)

    assert answer.status_code == 302, errors_on(answer)
    bus = GitBus.objects.get()
    assert list(BusMethod.objects.values_list("method", "skill", "is_ours")) == [
        ("draft.facts", "consolidate", True)
    ]
    page = as_operator.get(f"/admin/git_bus/gitbus/{bus.pk}/change/").content.decode()
    line = access.public_line(bus.deploy_key, "assent-partner")
    assert line.startswith("ssh-ed25519 ")
    assert line.split()[1] in page.replace("&#x2B;", "+")
    assert "PRIVATE KEY" not in page
    public = access.public_line(bus.signing_key, "").strip()
    assert f"assent_acme@assent.invalid {public}" in page.replace("&#x2B;", "+")
    assert bus.signing_key != bus.deploy_key


def test_a_new_deploy_key_keeps_the_signing_key_which_has_a_box_of_its_own(as_operator, partner):
    as_operator.post("/admin/git_bus/gitbus/add/", form(partner, make_deploy_key="on"))
    first = GitBus.objects.get()
    there = f"/admin/git_bus/gitbus/{first.pk}/change/"

    as_operator.post(there, form(partner, make_deploy_key="on"))
    second = GitBus.objects.get()
    as_operator.post(there, form(partner, make_signing_key="on"))
    third = GitBus.objects.get()

    assert second.deploy_key != first.deploy_key
    assert second.signing_key == first.signing_key
    assert third.deploy_key == second.deploy_key
    assert third.signing_key != first.signing_key
    sealed = [
        json.loads(event.details)["edits"] for event in Event.objects.filter(kind="bus_changed")
    ]
    assert [list(edits) for edits in sealed] == [["make_deploy_key"], ["make_signing_key"]]


def test_every_change_is_sealed_with_the_name_of_the_operator_and_without_secrets(
    as_operator, partner, consolidate
):
    key = access.new_key()
    as_operator.post("/admin/git_bus/gitbus/add/", form(partner))
    bus = GitBus.objects.get()
    changed = form(
        partner,
        ("draft.facts", "consolidate", True),
        new_deploy_key=key,
        new_password="a-token-nobody-sees",
        branch="work",
    )

    answer = as_operator.post(f"/admin/git_bus/gitbus/{bus.pk}/change/", changed)

    assert answer.status_code == 302, errors_on(answer)
    added, edited = Event.objects.filter(kind__startswith="bus_").order_by("pk")
    assert (added.kind, edited.kind) == ("bus_added", "bus_changed")
    assert edited.principal_name == "Olga Novak"
    edits = json.loads(edited.details)["edits"]
    assert edits["branch"] == ["main", "work"]
    assert edits["methods"] == [[], ["draft.facts → consolidate"]]
    assert edits["new_deploy_key"] == ["not shown", "another, not shown"]
    assert "a-token-nobody-sees" not in edited.details
    bus.refresh_from_db()
    assert (bus.deploy_key.strip(), bus.password) == (key.strip(), "a-token-nobody-sees")


def test_secrets_are_kept_when_their_fields_stay_empty_and_are_never_in_a_page(
    as_operator, partner
):
    as_operator.post(
        "/admin/git_bus/gitbus/add/", form(partner, new_password="a-token", make_deploy_key="on")
    )
    bus = GitBus.objects.get()
    before = bus.deploy_key

    as_operator.post(f"/admin/git_bus/gitbus/{bus.pk}/change/", form(partner, branch="work"))

    bus.refresh_from_db()
    assert (bus.branch, bus.password, bus.deploy_key) == ("work", "a-token", before)
    for address in (f"{bus.pk}/change/", f"{bus.pk}/history/", ""):
        assert "a-token" not in as_operator.get(f"/admin/git_bus/gitbus/{address}").content.decode()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"url": "ext::sh -c id"}, "Write https://host/path"),
        ({"url": "/etc"}, "Write https://host/path"),
        ({"url": "--upload-pack=id"}, "Write https://host/path"),
        ({"url": "https://ann:token@git.example/bus"}, "Put the access token into its own field"),
        ({"url": "git@git.example:bus"}, "the server has to prove who it is"),
        ({"known_hosts": "git.example"}, "Line 1 is none of ssh-keyscan"),
        ({"allowed_signers": f"{SIGNER}\nann ssh-ed25519"}, "Line 2 names no signer"),
        ({"new_deploy_key": "something"}, "no private SSH key"),
        ({"new_deploy_key": "ssh-ed25519 AAAA ann"}, "the public half"),
        ({"branch": "--force"}, "no name of a branch"),
        ({"participant": "a b"}, "Letters, digits"),
    ],
)
def test_what_cannot_work_is_refused_in_plain_words(as_operator, partner, fields, reason):
    page = as_operator.post("/admin/git_bus/gitbus/add/", form(partner, **fields))

    assert reason in errors_on(page)
    assert not GitBus.objects.exists()


def test_a_key_with_a_passphrase_is_refused(as_operator, partner, tmp_path):
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "key"]
    subprocess.run(make, check=True)

    sent = form(partner, new_deploy_key=(tmp_path / "key").read_text())
    page = as_operator.post("/admin/git_bus/gitbus/add/", sent)

    assert "has a passphrase" in errors_on(page)


def test_the_public_half_is_what_ssh_keygen_says(tmp_path):
    for kind in ("ed25519", "rsa", "ecdsa"):
        path = tmp_path / kind
        make = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "bus", "-f", path]
        subprocess.run(make, check=True)
        expected = path.with_suffix(".pub").read_text().strip()
        assert access.public_line(path.read_text(), "bus") == expected


def test_a_method_is_a_skill_of_the_tenant_and_on_the_right_side(
    as_operator, partner, consolidate, stranger
):
    Skill.objects.create(agent=stranger, slug="theirs", name="Theirs")
    Skill.objects.create(agent=partner, slug="far", name="Far")

    for method, reason in (
        (("m", "theirs", True), "Select a valid choice"),
        (("m", "far", True), "it is done there"),
        (("m", "consolidate", False), "is a skill of Partner"),
    ):
        page = as_operator.post("/admin/git_bus/gitbus/add/", form(partner, method))
        assert reason in errors_on(page)
    assert not GitBus.objects.exists()
    assert as_operator.post("/admin/git_bus/gitbus/add/", form(partner, ("m", "far", False)))
    assert BusMethod.objects.get().is_ours is False


def test_buses_and_requests_of_other_tenants_are_not_there(as_operator, stranger):
    theirs = GitBus.objects.create(agent=stranger, url="https://git.example/b", participant="x")
    row = BusRequest.objects.create(bus=theirs, request_id="r-9", progress=Progress.PROBLEM)

    for page in ("gitbus", "busrequest"):
        assert "r-9" not in as_operator.get(f"/admin/a2a/{page}/").content.decode()
    assert as_operator.get(f"/admin/git_bus/gitbus/{theirs.pk}/change/").status_code == 302
    wish = as_operator.post(f"/admin/git_bus/busrequest/{row.pk}/retry/", {"reason": "because"})
    assert wish.status_code == 404
    row.refresh_from_db()
    assert row.wish == ""


@pytest.fixture
def request_of(partner):
    bus = GitBus.objects.create(agent=partner, url="https://git.example/b", participant="x")

    def request_of(progress: Progress, **columns) -> BusRequest:
        return BusRequest.objects.create(bus=bus, request_id="R-1", progress=progress, **columns)

    return request_of


def test_requests_are_found_by_their_id_and_say_who_sent_them(as_operator, request_of):
    request_of(Progress.PROBLEM, author="Ann <ann@partner.example>")

    found = as_operator.get("/admin/git_bus/busrequest/?q=r-1").content.decode()
    assert "It names Ann &lt;ann@partner.example&gt;; nothing proves that." in found
    assert "R-1" in found
    assert "R-1" not in as_operator.get("/admin/git_bus/busrequest/?q=r-2").content.decode()
    assert "R-1" not in as_operator.get("/admin/git_bus/busrequest/?progress=held").content.decode()


def test_an_operator_has_a_request_answered_with_a_reason_that_is_sealed(as_operator, request_of):
    row = request_of(Progress.LEFT)
    there = f"/admin/git_bus/busrequest/{row.pk}"
    assert "Answer with an error" in as_operator.get(f"{there}/change/").content.decode()
    assert as_operator.post(f"{there}/refuse/", {"reason": ""}).status_code == 200
    row.refresh_from_db()
    assert row.wish == "", "not without a reason"

    as_operator.post(f"{there}/refuse/", {"reason": "Nobody here takes it."})

    row.refresh_from_db()
    assert (row.wish, row.wished_by) == (Wish.REFUSE, "Olga Novak")
    event = Event.objects.get(kind="bus_request_wished")
    assert (event.reason, event.tenant) == ("Nobody here takes it.", "acme")
    assert json.loads(event.details)["request"] == "R-1"


def test_what_has_no_meaning_for_the_request_is_refused(as_operator, request_of):
    row = request_of(Progress.DONE)
    there = f"/admin/git_bus/busrequest/{row.pk}"

    assert "Look at it again" not in as_operator.get(f"{there}/change/").content.decode()
    page = as_operator.post(f"{there}/retry/", {"reason": "again"}, follow=True)

    assert "The request is answered by now. Nothing was changed." in page.content.decode()
    row.refresh_from_db()
    assert row.wish == ""
