"""What a person may do: changed through one choke point, sealed, told, and never by them alone."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.urls import reverse

from approvals.desk import decisions
from approvals.http.middleware import roles_of
from approvals.models import Membership, Notice, Role
from approvals.people import accounts, principal_of, second_operator
from ledger import execution
from ledger.errors import LedgerError, NotAllowed, NotFound, NotPossible
from ledger.events import account_changes, change_kinds, outbox
from ledger.models import AgentToken, ChangeRequest, Delivery, Event
from ledger.proof.audit import verification
from tests.approvals import second_operators
from tests.conftest import seal_rights, signed_in
from tests.processes import ROOT

pytestmark = pytest.mark.django_db


def history() -> list[tuple[str, str, str, str]]:
    """Kind, by whom, through what and on whom, in order."""
    rows = Event.objects.filter(kind__in=change_kinds.ChangeKind).order_by("pk")
    rows = rows.exclude(principal="system:tests")
    return [(row.kind, row.principal, row.via, json.loads(row.details)["subject"]) for row in rows]


@pytest.fixture
def oscar_user(acme) -> User:
    """A second operator."""
    user = User.objects.create_user("oscar", password="oscar", first_name="Oscar", last_name="Ruiz")
    Membership.objects.create(user=user, tenant=acme, role=Role.OPERATOR)
    seal_rights(user)
    return user


def person_page(user: User) -> str:
    return reverse("desk:person", args=[user.pk])


def form_of(client: Client, page: str, **changed: str) -> dict[str, str]:
    """The form as the browser would send it back, with some fields changed."""
    form = client.get(page).context["form"]
    values = {name: form[name].value() or "" for name in form.fields}
    return {f"initial-{name}": value for name, value in values.items()} | values | changed


# --- sealed, whichever way ---------------------------------------------------------------------


def test_a_role_that_an_operator_gives_somebody_is_sealed_and_the_person_is_told(
    as_olga, olga_user, vera_user
):
    give = reverse("desk:people-give-role", args=[vera_user.pk])

    assert as_olga.post(give, {"role": "acme approver"}).status_code == 302

    assert roles_of(vera_user)["acme"] == {"viewer", "approver"}
    assert history() == [("role_granted", f"user:{olga_user.pk}", "web", f"user:{vera_user.pk}")]
    said = signed_in(vera_user).get("/").content.decode()
    assert "Olga Novak gave you the role manager in acme." in said
    verification.verify()


def test_a_notice_stays_until_it_is_dismissed_by_whom_it_is_for(vera_user, olga_user, as_bob):
    accounts.give_role(vera_user, "acme", "approver", by=principal_of(olga_user), via="admin")
    notice, as_vera = Notice.objects.get(), signed_in(vera_user)

    as_bob.post(reverse("desk:notice-dismiss", args=[notice.pk]))
    assert "gave you the role" in as_vera.get("/").content.decode()
    as_vera.post(reverse("desk:notice-dismiss", args=[notice.pk]))

    assert "gave you the role" not in as_vera.get("/").content.decode()


def test_names_and_address_are_sealed_from_what_to_what(as_olga, vera_user):
    User.objects.filter(pk=vera_user.pk).update(last_login=None, password="!")  # not come in yet
    page = person_page(vera_user)
    form = form_of(as_olga, page, username="vera2", email="v@acme.example")

    assert as_olga.post(page, form).status_code == 302

    assert [kind for kind, *_ in history()] == ["user_renamed", "email_changed"]
    first = json.loads(Event.objects.get(kind="user_renamed").details)
    assert first["edits"] == {"username": ["vera", "vera2"]}


def test_a_name_that_was_somebody_elses_is_refused_at_the_field(as_olga, vera_user, alice_user):
    page = person_page(vera_user)

    answer = as_olga.post(page, form_of(as_olga, page, username="Alice"))

    assert answer.status_code == 422
    assert "Somebody else has this username" in answer.content.decode()
    assert User.objects.get(pk=vera_user.pk).username == "vera"


def test_a_name_stays_as_it_is_once_somebody_has_signed_in_with_it(as_olga, vera_user, olga_user):
    page = person_page(vera_user)
    before = form_of(as_olga, page, username="other")
    client = Client()
    client.post("/sign-in/", {"username": "vera", "password": "vera"})

    as_olga.post(page, before)  # the page was opened before

    assert User.objects.get(pk=vera_user.pk).username == "vera"
    by = principal_of(olga_user)
    with pytest.raises(ValidationError):
        accounts.relabel(vera_user, {"username": "other"}, by=by, via="web")


def test_nobody_alone_gets_a_way_into_an_account_that_decides(as_olga, olga_user, bob_user):
    """A link to a new password would go to the address."""
    page = person_page(bob_user)
    form = form_of(as_olga, page)

    as_olga.post(page, {**form, "email": "olga@elsewhere.example", "initial-email": ""})

    assert User.objects.get(pk=bob_user.pk).email == ""
    wanted = {"email": "olga@elsewhere.example"}
    with pytest.raises(ValidationError):
        accounts.relabel(bob_user, wanted, by=principal_of(olga_user), via="web")
    assert history() == []


def test_a_name_of_a_colleague_is_refused(as_olga, vera_user, bob_user):
    page = person_page(vera_user)

    form = form_of(as_olga, page, first_name="Bob", last_name="Tanaka")
    answer = as_olga.post(page, form)

    assert answer.status_code == 422
    assert "Somebody else here has this name." in answer.content.decode()


def test_people_are_not_kept_in_the_admin():
    assert {User, Group} & set(admin.site._registry) == set()


def test_tokens_and_agents_are_sealed_without_the_secret(as_olga, helpdesk):
    as_olga.post(reverse("desk:agent-token", args=[helpdesk.pk]), {"scopes": ["propose"]})
    token = AgentToken.objects.get()
    as_olga.post(reverse("desk:agent-token-revoke", args=[helpdesk.pk, token.pk]))
    form = {"name": "Front desk", "initial-is_active": "True"}
    as_olga.post(reverse("desk:agent", args=[helpdesk.pk]), form)

    assert [kind for kind, *_ in history()] == [
        "token_issued",
        "token_revoked",
        "agent_deactivated",
        "agent_changed",
    ]
    assert token.token_hash not in str(list(Event.objects.values()))
    verification.verify()


def test_commands_are_recorded_as_such(acme, db, capsys):
    call_command("createsuperuser", username="root", email="", interactive=False, verbosity=0)
    call_command("invite", tenant="acme", user="root", role="operator")
    call_command("issue_token", tenant="acme", agent="new-one")

    kinds = [(kind, by, via) for kind, by, via, _ in history()]
    assert kinds == [
        (kind, "system:command", "command")
        for kind in (
            "user_created",
            "staff_granted",
            "superuser_granted",
            "role_granted",
            "agent_added",
            "token_issued",
        )
    ]


def test_a_command_lets_into_the_admin_and_out_and_closes_accounts(vera_user, as_vera, capsys):
    for change in ("--admin", "--superuser", "--no-superuser", "--no-admin", "--close", "--open"):
        call_command("account", "vera", change)
        if change == "--admin":
            assert as_vera.get("/admin/").status_code == 200
        if change == "--close":
            assert as_vera.get("/").status_code == 302

    vera = User.objects.get(pk=vera_user.pk)
    assert (vera.is_active, vera.is_staff, vera.is_superuser) == (True, False, False)
    assert not vera.user_permissions.exists()
    kinds = [
        "staff_granted",
        "permissions_changed",
        "superuser_granted",
        "superuser_revoked",
        "staff_revoked",
        "permissions_changed",
        "user_deactivated",
        "user_activated",
    ]
    assert [(kind, by, via) for kind, by, via, _ in history()] == [
        (kind, "system:command", "command") for kind in kinds
    ]
    verification.verify()
    with pytest.raises(CommandError, match="no account named nobody"):
        call_command("account", "nobody", "--close")


def test_an_account_that_is_older_than_its_first_tenant_verifies(db, tmp_path):
    """The first steps of docs/operators-first-day.md, in their order."""
    call_command("createsuperuser", username="root", email="", interactive=False, verbosity=0)
    call_command("invite", tenant="acme", user="root", role="operator")
    call_command("invite", tenant="globex", user="root", role="viewer")
    export = tmp_path / "export.jsonl"

    call_command("export_ledger", str(export))

    verification.verify()
    checked = subprocess.run(
        [sys.executable, ROOT / "examples" / "verify.py", export], capture_output=True, text=True
    )
    assert "another tenant" not in checked.stdout + checked.stderr


# --- never by the person alone ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (
            lambda who, by: accounts.give_role(who, "acme", "approver", by=by, via="admin"),
            "role_granted",
        ),
        (
            lambda who, by: accounts.take_role(who, "acme", "operator", by=by, via="admin"),
            "role_revoked",
        ),
        (
            lambda who, by: accounts.set_flag(who, "is_superuser", True, by=by, via="admin"),
            "superuser_granted",
        ),
        (
            lambda who, by: accounts.set_permissions(
                who, Permission.objects.all()[:3], by=by, via="admin"
            ),
            "permissions_changed",
        ),
    ],
)
def test_what_a_person_may_do_does_not_change_by_that_person(olga_user, change, kind):
    before = (roles_of(olga_user), olga_user.is_superuser)

    assert change(olga_user, principal_of(olga_user)) is False

    after = User.objects.get(pk=olga_user.pk)
    assert (roles_of(after), after.is_superuser) == before
    assert ChangeRequest.objects.get().kind == kind
    assert [kind for kind, *_ in history()] == ["change_requested"]


def test_a_role_of_ones_own_waits_for_a_second_operator(as_olga, olga_user, oscar_user):
    give = reverse("desk:people-give-role", args=[olga_user.pk])
    answer = as_olga.post(give, {"role": "acme approver"}, follow=True)

    assert "A second operator has to confirm" in answer.content.decode()
    assert roles_of(olga_user)["acme"] == {"operator"}
    row = ChangeRequest.objects.get()
    confirm = reverse("desk:change-confirm", args=[row.pk])
    assert (
        "another operator has to confirm"
        in as_olga.post(confirm, {"seen": row.sha256}, follow=True).content.decode()
    )
    assert roles_of(olga_user)["acme"] == {"operator"}

    signed_in(oscar_user).post(confirm, {"seen": row.sha256})

    assert roles_of(olga_user)["acme"] == {"operator", "approver"}
    event = Event.objects.order_by("-pk").first()
    assert (event.kind, event.principal) == ("role_granted", f"user:{oscar_user.pk}")
    assert json.loads(event.details)["asked_by"] == f"user:{olga_user.pk}"
    verification.verify()


def test_making_staff_takes_another_superuser(vera_user, oscar_user):
    root, other = (User.objects.create_superuser(name, password=name) for name in ("r1", "r2"))
    assert (
        accounts.set_flag(vera_user, "is_staff", True, by=principal_of(root), via="admin") is False
    )
    row = ChangeRequest.objects.get()

    with pytest.raises(NotFound):  # an operator of a tenant gives no rights in the admin
        second_operators.confirm_request(row.pk, by=oscar_user, via="web")
    with pytest.raises(NotAllowed):
        second_operators.confirm_request(row.pk, by=root, via="web")
    second_operators.confirm_request(row.pk, by=other, via="web")

    assert User.objects.get(pk=vera_user.pk).is_staff


def test_whoever_has_the_second_operators_password_is_no_second_operator(olga_user, oscar_user):
    by = principal_of(olga_user)
    accounts.set_password(oscar_user, "known to olga", by=by, via="admin")
    accounts.give_role(olga_user, "acme", "approver", by=by, via="admin")

    with pytest.raises(NotAllowed, match="set its password"):
        second_operators.confirm_request(ChangeRequest.objects.get().pk, by=oscar_user, via="web")

    assert roles_of(olga_user)["acme"] == {"operator"}


def test_a_role_that_decides_for_an_account_that_one_opened_waits_for_a_second_operator(
    olga_user, oscar_user, acme
):
    by = principal_of(olga_user)
    puppet = User.objects.create_user("puppet", password="known to olga")
    accounts.opened(puppet, by=by, via="admin")

    assert accounts.give_role(puppet, "acme", "viewer", by=by, via="admin") is True
    assert accounts.give_role(puppet, "acme", "approver", by=by, via="admin") is False
    assert roles_of(puppet)["acme"] == {"viewer"}
    with pytest.raises(NotAllowed):
        second_operators.confirm_request(ChangeRequest.objects.get().pk, by=olga_user, via="web")
    second_operators.confirm_request(ChangeRequest.objects.get().pk, by=oscar_user, via="web")

    assert roles_of(User.objects.get(pk=puppet.pk))["acme"] == {"viewer", "approver"}


def test_nobody_confirms_what_they_asked_for_with_anothers_password(
    olga_user, oscar_user, vera_user
):
    """Olga sets Oscar's password, asks as Oscar, and confirms as herself."""
    accounts.set_password(oscar_user, "known to olga", by=principal_of(olga_user), via="admin")
    root = User.objects.create_superuser("root", password="root")
    by = principal_of(oscar_user)
    second_operator.ask(
        vera_user, "role_granted", by=by, via="admin", tenant="acme", details={"role": "operator"}
    )
    row = ChangeRequest.objects.get()

    with pytest.raises(NotAllowed, match="sign in both as you"):
        second_operators.confirm_request(row.pk, by=olga_user, via="web")
    second_operators.confirm_request(row.pk, by=root, via="web")

    assert "operator" in roles_of(vera_user)["acme"]


def test_a_third_account_between_two_makes_them_no_two_people(olga_user, oscar_user, otto_user):
    """Olga sets Otto's password, and as Otto that of Oscar."""
    accounts.set_password(otto_user, "known to olga", by=principal_of(olga_user), via="admin")
    accounts.set_password(oscar_user, "known to olga", by=principal_of(otto_user), via="admin")
    accounts.give_role(olga_user, "acme", "approver", by=principal_of(olga_user), via="admin")

    with pytest.raises(NotAllowed, match="sign in both as you"):
        second_operators.confirm_request(ChangeRequest.objects.get().pk, by=oscar_user, via="web")


def test_two_accounts_that_one_person_opened_do_not_confirm_each_other(
    olga_user, oscar_user, otto_user
):
    for person in (oscar_user, otto_user):
        accounts.opened(person, by=principal_of(olga_user), via="admin")
    accounts.give_role(otto_user, "acme", "approver", by=principal_of(otto_user), via="admin")

    with pytest.raises(NotAllowed, match="third person"):
        second_operators.confirm_request(ChangeRequest.objects.get().pk, by=oscar_user, via="web")


def test_two_accounts_of_one_person_are_no_quorum(a_transaction, alice_user, bob_user, vera_user):
    accounts.set_password(bob_user, "known to alice", by=principal_of(alice_user), via="admin")
    accounts.give_role(vera_user, "acme", "approver", by=principal_of(alice_user), via="admin")
    row = a_transaction("scuttle", rocket="r1")
    said = {"digest": row.intent_digest, "via": "web", "typed": "r1"}
    decisions.approve(bob_user, row.pk, **said)

    with pytest.raises(NotAllowed, match=r"Bob Tanaka has approved it\. One of you"):
        decisions.approve(alice_user, row.pk, **said)
    row = decisions.approve(vera_user, row.pk, **said)

    assert row.state == "approved"


def test_two_accounts_of_one_person_are_no_two_operators(approved, olga_user, oscar_user):
    accounts.set_password(oscar_user, "known to olga", by=principal_of(olga_user), via="admin")
    row = approved("pay", amount="5000.00")
    execution.commit(row.pk)
    said = {"via": "web", "reason": "Wrong customer."}
    decisions.compensate(olga_user, row.pk, **said)

    with pytest.raises(NotAllowed, match="Olga Novak has proposed it"):
        decisions.compensate(oscar_user, row.pk, **said)
    row = decisions.resolve(oscar_user, row.pk, outcome="decline", **said)

    assert (row.state, row.settlement) == ("committed", None)


def test_a_change_lapses_is_settled_once_and_is_anothers_tenants_secret(
    olga_user, oscar_user, carol_user, globex
):
    Membership.objects.create(user=carol_user, tenant=globex, role=Role.OPERATOR)
    accounts.give_role(olga_user, "acme", "approver", by=principal_of(olga_user), via="admin")
    row = ChangeRequest.objects.get()

    with pytest.raises(NotFound):
        second_operators.confirm_request(row.pk, by=carol_user, via="web")
    second_operators.decline_request(row.pk, by=oscar_user, via="web")
    with pytest.raises(NotPossible):
        second_operators.confirm_request(row.pk, by=oscar_user, via="web")

    accounts.give_role(olga_user, "acme", "approver", by=principal_of(olga_user), via="admin")
    late = ChangeRequest.objects.get(state="waiting")
    ChangeRequest.objects.filter(pk=late.pk).update(expires_at=late.asked_at)
    with pytest.raises(NotFound):
        second_operators.confirm_request(late.pk, by=oscar_user, via="web")
    assert roles_of(olga_user)["acme"] == {"operator"}


@pytest.mark.django_db(transaction=True)
def test_of_many_confirmations_at_once_one_counts(olga_user, oscar_user):
    accounts.give_role(olga_user, "acme", "approver", by=principal_of(olga_user), via="admin")
    row, start, won = ChangeRequest.objects.get(), threading.Barrier(8), []

    def confirm() -> None:
        try:
            start.wait()
            won.append(second_operators.confirm_request(row.pk, by=oscar_user, via="web"))
        except LedgerError:
            pass
        finally:
            connections.close_all()

    threads = [threading.Thread(target=confirm) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
    assert [kind for kind, *_ in history()] == ["change_requested", "role_granted"]


# --- passwords ----------------------------------------------------------------------------------


def test_a_password_that_a_command_sets_ends_the_sessions_and_is_told(bob_user):
    as_bob, new = signed_in(bob_user), "a new one, and long"

    by = account_changes.command_principal()
    accounts.set_password(bob_user, new, by=by, via="command")

    assert as_bob.get("/").status_code == 302
    kind = "password_changed"
    assert history() == [(kind, "system:command", "command", f"user:{bob_user.pk}")]
    client = Client()
    assert client.login(username="bob", password=new)
    assert "set a new password" in client.get("/").content.decode()
    assert new not in str(list(Event.objects.values()))


def test_one_changes_ones_own_password_on_the_desk_with_the_old_one(bob_user):
    here, elsewhere = signed_in(bob_user), signed_in(bob_user)
    new = "a new one, and long"
    form = {"new_password1": new, "new_password2": new}

    wrong = here.post("/password/", {**form, "old_password": "guessed"})
    assert wrong.status_code == 422
    assert history() == []
    here.post("/password/", {**form, "old_password": "bob"})

    assert here.get("/").status_code == 200
    assert elsewhere.get("/").status_code == 302
    by = f"user:{bob_user.pk}"
    assert history() == [("password_changed", by, "web", by)]
    fresh = Client()
    fresh.post("/sign-in/", {"username": "bob", "password": new})
    assert fresh.get("/").status_code == 200


def test_the_admin_has_no_way_round_the_old_password(as_olga, olga_user):
    User.objects.filter(pk=olga_user.pk).update(is_staff=True)
    there = "/admin/password_change/"

    assert as_olga.get(there)["Location"] == "/password/"
    as_olga.post(there, {"password1": "x" * 12, "password2": "x" * 12})
    assert User.objects.get(pk=olga_user.pk).check_password("olga")


# --- who changed what ---------------------------------------------------------------------------


def test_operators_see_the_changes_of_their_tenants_and_nobody_elses(
    as_olga, as_alice, carol_user, vera_user, olga_user
):
    by = account_changes.command_principal()
    accounts.give_role(vera_user, "acme", "approver", by=by, via="command")
    accounts.give_role(carol_user, "globex", "viewer", by=by, via="command")
    accounts.set_password(vera_user, "another one", by=by, via="command")
    accounts.set_password(carol_user, "another one", by=by, via="command")

    page = as_olga.get("/changes/").content.decode()

    assert page.count("Vera Lind") == 2  # the role, and the password of somebody of acme only
    assert "Carol" not in page
    assert as_alice.get("/changes/").status_code == 403
    root = signed_in(User.objects.create_superuser("root", password="root"))
    assert root.get("/changes/").content.decode().count("Carol Diaz") == 2
    assert "gave a role" in as_olga.get("/changes/?who=vera&kind=role_granted").content.decode()
    assert "No change matches" in as_olga.get("/changes/?who=carol").content.decode()


@pytest.mark.parametrize("kind", sorted(change_kinds.CHANGE_DESCRIPTIONS))
def test_every_kind_of_change_is_on_the_page_and_can_be_chosen(as_olga, kind):
    by = account_changes.command_principal()
    account_changes.record_change("row:1", kind, tenant="acme", by=by, via="command", name="Row 1")

    assert "Row 1" in as_olga.get("/changes/").content.decode()
    chosen = as_olga.get(f"/changes/?kind={kind}").context["lines"]
    assert {line.event.kind for line in chosen} == {kind}


@pytest.mark.of_app("approvals.slack")
def test_a_change_of_an_app_that_was_left_out_since_stays_on_the_page(as_olga, monkeypatch):
    by = account_changes.command_principal()
    account_changes.record_change(
        "route:1", "slack_route_added", tenant="acme", by=by, via="command", name="Route 1"
    )
    [kind] = [kind for kind in change_kinds.CHANGE_DESCRIPTIONS if kind == "slack_route_added"]
    monkeypatch.delitem(change_kinds.CHANGE_DESCRIPTIONS, kind)  # it comes back as what it was

    page = as_olga.get("/changes/").content.decode()

    assert "Route 1" in page
    assert "slack_route_added" in page


@pytest.mark.of_app("approvals.slack")
def test_without_slack_nobody_is_told_there_although_its_token_is_set(
    vera_user, settings, monkeypatch
):
    settings.SLACK_BOT_TOKENS = ["xoxb-1"]
    by = {"by": account_changes.command_principal(), "via": "command"}
    accounts.set_password(vera_user, "another one", **by)
    assert Delivery.objects.filter(channel="notice").count() == 1

    monkeypatch.delitem(outbox.channels, "notice")
    accounts.set_password(vera_user, "yet another one", **by)

    assert Delivery.objects.filter(channel="notice").count() == 1


def test_changes_are_paged(as_olga, vera_user):
    for _ in range(60):
        accounts.set_password(
            vera_user, "another one", by=account_changes.command_principal(), via="command"
        )

    first = as_olga.get("/changes/")
    rest = as_olga.get(f"/changes/?before={first.context['next']}")

    assert (len(first.context["lines"]), len(rest.context["lines"])) == (50, 14)
    assert rest.context["next"] is None


@pytest.mark.django_db(transaction=True)
def test_two_accounts_of_one_person_at_once_are_no_quorum(a_transaction, alice_user, bob_user):
    accounts.set_password(bob_user, "known to alice", by=principal_of(alice_user), via="admin")
    row = a_transaction("scuttle", rocket="r1")
    said = {"digest": row.intent_digest, "via": "web", "typed": "r1"}
    start, refused = threading.Barrier(2), []

    def approve(person: User) -> None:
        try:
            start.wait()
            decisions.approve(person, row.pk, **said)
        except NotAllowed as refusal:
            refused.append(refusal)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=approve, args=[one]) for one in (alice_user, bob_user)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    row.refresh_from_db()
    assert (row.state, row.decisions.count(), len(refused)) == ("prepared", 1, 1)
