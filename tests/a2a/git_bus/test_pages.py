"""Operators keep the git buses of their tenants; keys are never shown, changes are sealed."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from django.contrib.auth.models import Permission
from django.db import connection

from a2a.doors.git_bus.models import BusMethod, BusRequest, GitBus, Progress, Wish
from a2a.doors.git_bus.repository import access
from a2a.models import Skill
from ledger.models import Agent, Event

pytestmark = pytest.mark.django_db

SIGNER = (
    "ann@partner.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ1c2J1c2J1c2J1c2J1c2J1c2J1c2J1c2J1"
)


@pytest.fixture
def partner(acme):
    return Agent.objects.create(tenant=acme, slug="partner", name="Partner")


NEW = "/connections/buses/new/"


def page_of(bus) -> str:
    return f"/connections/buses/{bus.pk}/"


def request_page(row) -> str:
    return f"/ops/requests/{row.pk}/"


def form(agent, *methods, **fields):
    """What the form of a bus sends."""
    sent = {
        "agent": agent.pk,
        "participant": "assent_acme",
        "is_active": "on",
        "url": "https://git.example/bus.git",
        "branch": "main",
        "strangers": "ask",
        "poll_every_0": "30",
        "poll_every_1": "1",
        "stuck_after_0": "1",
        "stuck_after_1": "3600",
        "methods-TOTAL_FORMS": len(methods),
        "methods-INITIAL_FORMS": 0,
    }
    for place, (method, skill, is_ours) in enumerate(methods):
        sent |= {f"methods-{place}-method": method, f"methods-{place}-skill": skill}
        sent[f"methods-{place}-is_ours"] = str(is_ours)
    return {**sent, **fields}


def errors_on(page) -> str:
    return " ".join(re.findall(r'<p class="fault"[^>]*>(.*?)</p>', page.content.decode(), re.S))


def test_a_bus_is_added_with_its_methods_and_a_key_that_is_made_here(as_olga, partner, consolidate):
    answer = as_olga.post(NEW, form(partner, make_deploy_key="on"))

    assert answer.status_code == 302, errors_on(answer)
    bus = GitBus.objects.get()
    assert answer.headers["Location"] == page_of(bus)
    saved = as_olga.post(page_of(bus), form(partner, ("draft.facts", "consolidate", True)))
    assert saved.status_code == 302, errors_on(saved)
    assert list(BusMethod.objects.values_list("method", "skill", "is_ours")) == [
        ("draft.facts", "consolidate", True)
    ]
    page = as_olga.get(page_of(bus)).content.decode()
    line = access.public_line(bus.deploy_key, "assent-partner")
    assert line.startswith("ssh-ed25519 ")
    assert line.split()[1] in page.replace("&#x2B;", "+")
    assert "PRIVATE KEY" not in page
    public = access.public_line(bus.signing_key, "").strip()
    assert f"assent_acme@assent.invalid {public}" in page.replace("&#x2B;", "+")
    assert bus.signing_key != bus.deploy_key


def test_a_new_deploy_key_keeps_the_signing_key_which_has_a_box_of_its_own(as_olga, partner):
    as_olga.post(NEW, form(partner, make_deploy_key="on"))
    first = GitBus.objects.get()
    there = page_of(first)

    as_olga.post(there, form(partner, make_deploy_key="on"))
    second = GitBus.objects.get()
    as_olga.post(there, form(partner, make_signing_key="on"))
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
    as_olga, partner, consolidate
):
    key = access.new_key()
    as_olga.post(NEW, form(partner))
    bus = GitBus.objects.get()
    changed = form(
        partner,
        ("draft.facts", "consolidate", True),
        new_deploy_key=key,
        new_password="a-token-nobody-sees",
        branch="work",
    )

    answer = as_olga.post(page_of(bus), changed)

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


def test_secrets_are_kept_when_their_fields_stay_empty_and_are_never_in_a_page(as_olga, partner):
    as_olga.post(NEW, form(partner, new_password="a-token", make_deploy_key="on"))
    bus = GitBus.objects.get()
    before = bus.deploy_key

    as_olga.post(page_of(bus), form(partner, branch="work"))

    bus.refresh_from_db()
    assert (bus.branch, bus.password, bus.deploy_key) == ("work", "a-token", before)
    for page in (page_of(bus), "/connections/", "/ops/", "/changes/"):
        assert "a-token" not in as_olga.get(page).content.decode()
    assert not as_olga.get(page_of(bus)).content.decode().count("PRIVATE KEY")

    refused = as_olga.post(page_of(bus), form(partner, url="x", new_password="b-token"))
    assert refused.status_code == 422
    assert "b-token" not in refused.content.decode()


def test_a_change_that_somebody_else_made_meanwhile_stays(as_olga, partner):
    as_olga.post(NEW, form(partner))
    bus = GitBus.objects.get()
    initial = {"initial-branch": "main", "initial-participant": "assent_acme"}
    GitBus.objects.update(branch="work", participant="other")

    as_olga.post(page_of(bus), form(partner, participant="third", **initial))

    bus.refresh_from_db()
    assert (bus.branch, bus.participant) == ("work", "third")


def test_keys_that_cannot_be_decrypted_leave_the_page_whole(as_olga, partner):
    as_olga.post(NEW, form(partner, make_deploy_key="on"))
    bus = GitBus.objects.get()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE git_bus_gitbus SET deploy_key = 'enc:x', signing_key = 'enc:x'")

    assert as_olga.get(page_of(bus)).status_code == 200
    as_olga.post(page_of(bus), form(partner, make_deploy_key="on"))

    bus = GitBus.objects.get()
    assert bus.signing_key.startswith("-----BEGIN")


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
def test_what_cannot_work_is_refused_in_plain_words(as_olga, partner, fields, reason):
    page = as_olga.post(NEW, form(partner, **fields))

    assert reason in errors_on(page)
    assert not GitBus.objects.exists()


def test_a_key_with_a_passphrase_is_refused(as_olga, partner, tmp_path):
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "key"]
    subprocess.run(make, check=True)

    sent = form(partner, new_deploy_key=(tmp_path / "key").read_text())
    page = as_olga.post(NEW, sent)

    assert "has a passphrase" in errors_on(page)


def test_the_public_half_is_what_ssh_keygen_says(tmp_path):
    for kind in ("ed25519", "rsa", "ecdsa"):
        path = tmp_path / kind
        make = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "bus", "-f", path]
        subprocess.run(make, check=True)
        expected = path.with_suffix(".pub").read_text().strip()
        assert access.public_line(path.read_text(), "bus") == expected


def test_a_method_is_a_skill_of_the_tenant_and_on_the_right_side(
    as_olga, partner, consolidate, stranger
):
    Skill.objects.create(agent=stranger, slug="theirs", name="Theirs")
    Skill.objects.create(agent=partner, slug="far", name="Far")

    as_olga.post(NEW, form(partner))
    bus = GitBus.objects.get()
    for method, reason in (
        (("m", "theirs", True), "Select a valid choice"),
        (("m", "far", True), "it is done there"),
        (("m", "consolidate", False), "is a skill of Partner"),
    ):
        page = as_olga.post(page_of(bus), form(partner, method))
        assert page.status_code == 422
        assert reason in errors_on(page)
    assert not BusMethod.objects.exists()
    assert as_olga.post(page_of(bus), form(partner, ("m", "far", False))).status_code == 302
    assert BusMethod.objects.get().is_ours is False


def test_buses_and_requests_of_other_tenants_are_not_there(as_olga, stranger):
    theirs = GitBus.objects.create(agent=stranger, url="https://git.example/b", participant="x")
    row = BusRequest.objects.create(bus=theirs, request_id="r-9", progress=Progress.PROBLEM)

    for page in ("/connections/", "/ops/"):
        assert "git.example" not in as_olga.get(page).content.decode()
    assert as_olga.get(page_of(theirs)).status_code == 404
    assert as_olga.post(page_of(theirs), form(stranger)).status_code == 404
    assert as_olga.post(f"{page_of(theirs)}look").status_code == 404
    assert as_olga.get(request_page(row)).status_code == 404
    wish = as_olga.post(request_page(row), {"wish": "retry", "reason": "because"})
    assert wish.status_code == 404
    row.refresh_from_db()
    assert row.wish == ""


@pytest.fixture
def request_of(partner):
    bus = GitBus.objects.create(agent=partner, url="https://git.example/b", participant="x")

    def request_of(progress: Progress, **columns) -> BusRequest:
        return BusRequest.objects.create(bus=bus, request_id="R-1", progress=progress, **columns)

    return request_of


def test_requests_are_found_by_their_id_and_say_who_sent_them(as_olga, olga_user, request_of):
    olga_user.is_staff = True
    olga_user.save()
    rights = Permission.objects.filter(content_type__app_label="git_bus")
    olga_user.user_permissions.set(rights)
    row = request_of(Progress.PROBLEM, author="Ann <ann@partner.example>")

    found = as_olga.get("/admin/git_bus/busrequest/?q=r-1").content.decode()
    assert "It names Ann &lt;ann@partner.example&gt;; nothing proves that." in found
    assert "R-1" in found
    seen = as_olga.get(f"/admin/git_bus/busrequest/{row.pk}/change/").content.decode()
    assert request_page(row) in seen
    assert "R-1" not in as_olga.get("/admin/git_bus/busrequest/?q=r-2").content.decode()
    assert "R-1" not in as_olga.get("/admin/git_bus/busrequest/?progress=held").content.decode()


def test_an_operator_has_a_request_answered_with_a_reason_that_is_sealed(as_olga, request_of):
    row = request_of(Progress.LEFT)
    assert "Answer with an error" in as_olga.get(request_page(row)).content.decode()
    refused = as_olga.post(request_page(row), {"wish": "refuse", "reason": ""})
    assert refused.status_code == 422
    row.refresh_from_db()
    assert row.wish == "", "not without a reason"

    as_olga.post(request_page(row), {"wish": "refuse", "reason": "Nobody here takes it."})

    row.refresh_from_db()
    assert (row.wish, row.wished_by) == (Wish.REFUSE, "Olga Novak")
    event = Event.objects.get(kind="bus_request_wished")
    assert (event.reason, event.tenant) == ("Nobody here takes it.", "acme")
    assert json.loads(event.details)["request"] == "R-1"
    assert "Olga Novak wants it" in as_olga.get(request_page(row)).content.decode()


def test_what_has_no_meaning_for_the_request_is_refused(as_olga, as_alice, request_of):
    row = request_of(Progress.DONE)

    assert "Look at it again" not in as_olga.get(request_page(row)).content.decode()
    page = as_olga.post(request_page(row), {"wish": "retry", "reason": "again"}, follow=True)

    assert "The request is answered by now. Nothing was changed." in page.content.decode()
    assert as_alice.post(request_page(row), {"wish": "retry", "reason": "x"}).status_code == 403
    row.refresh_from_db()
    assert row.wish == ""


@pytest.mark.parametrize(
    "url",
    ["https://evil.example/bus.git", "https://git.example:8443/bus.git", "git@git.example:bus.git"],
)
def test_the_access_token_does_not_go_to_another_server(as_olga, partner, url):
    as_olga.post(NEW, form(partner, new_password="a-token"))
    bus = GitBus.objects.get()

    moved = form(partner, url=url, known_hosts="git.example ssh-ed25519 " + SIGNER.split()[-1])
    page = as_olga.post(page_of(bus), moved, follow=True).content.decode()

    bus.refresh_from_db()
    assert (bus.url, bus.password) == (url, "")
    assert "The access token was for the server before" in page
    edits = json.loads(Event.objects.get(kind="bus_changed").details)["edits"]
    assert edits["new_password"] == ["not shown", ""]


def test_the_access_token_goes_along_to_another_path_and_a_new_one_anywhere(as_olga, partner):
    as_olga.post(NEW, form(partner, new_password="a-token"))
    bus = GitBus.objects.get()

    as_olga.post(page_of(bus), form(partner, url="https://git.example/other.git"))
    bus.refresh_from_db()
    assert (bus.url, bus.password) == ("https://git.example/other.git", "a-token")
    moved = form(partner, url="https://new.example/bus.git", new_password="b-token")
    as_olga.post(page_of(bus), moved)
    bus.refresh_from_db()
    assert (bus.url, bus.password) == ("https://new.example/bus.git", "b-token")


def test_a_method_that_a_colleague_changed_meanwhile_is_kept(as_olga, partner, consolidate):
    other = Skill.objects.create(
        tenant="acme", agent=consolidate.agent, slug="harmless", name="Harmless"
    )
    as_olga.post(NEW, form(partner))
    bus = GitBus.objects.get()
    method = BusMethod.objects.create(bus=bus, method="draft", skill=consolidate.slug, is_ours=True)
    shown = as_olga.get(page_of(bus)).context["methods"].forms[0]
    sent = form(partner, ("draft", consolidate.slug, True), branch="dev")
    sent |= {"methods-INITIAL_FORMS": 1, "methods-0-id": method.pk, "methods-0-bus": bus.pk}
    sent |= {shown[name].html_initial_name: shown[name].value() for name in shown.Meta.fields}
    page = as_olga.get(page_of(bus)).content.decode()
    assert all(f'name="{shown[name].html_initial_name}"' in page for name in shown.Meta.fields)
    BusMethod.objects.filter(pk=method.pk).update(skill=other.slug)  # by the colleague

    answer = as_olga.post(page_of(bus), {**sent, "methods-0-method": "draft.text"})

    assert answer.status_code == 302, errors_on(answer)
    method.refresh_from_db()
    assert (method.method, method.skill) == ("draft.text", other.slug)


def test_a_span_is_of_a_unit_that_is_offered(as_olga, partner):
    for odd in ({"poll_every_1": "9" * 400}, {"poll_every_1": "7"}, {"poll_every_0": "0.0000001"}):
        page = as_olga.post(NEW, form(partner, **odd))
        assert page.status_code == 422, odd
    assert not GitBus.objects.exists()
