"""The page *People*: operators keep the people of their tenants, and some things take two."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from approvals.http.middleware import roles_of
from approvals.models import Membership, Role
from approvals.people.sign_in import second_steps
from ledger.models import ChangeRequest, Event
from tests.authenticators import Authenticator

pytestmark = pytest.mark.django_db
NINA = {"username": "nina", "name": "Nina Wolf", "tenant": "acme", "role": "approver"}
CHOSEN = {"new_password1": "long and unusual", "new_password2": "long and unusual"}


def link_in(answer) -> str:
    return re.search(r'value="http://[^/"]+(/join/[^"]+)"', answer.content.decode())[1]


def confirm_all(client: Client) -> list:
    rows = ChangeRequest.objects.filter(state="waiting")
    return [client.post(f"/changes/{row.pk}/confirm", {"seen": row.sha256}) for row in rows]


def test_an_operator_invites_and_a_second_one_confirms_the_role(as_olga, as_otto):
    answer = as_olga.post("/people/invite", NINA)
    nina, link = User.objects.get(username="nina"), link_in(answer)
    before = roles_of(nina)

    client = Client()
    client.post(link, CHOSEN)
    confirm_all(as_otto)

    assert "A second operator has to confirm the role." in answer.content.decode()
    assert before == {"acme": {"viewer"}}
    assert roles_of(nina) == {"acme": {"viewer", "approver"}}
    assert client.get("/").status_code == 200


def test_whoever_invites_cannot_confirm_it(as_olga, otto_user):
    as_olga.post("/people/invite", NINA)

    confirm_all(as_olga)

    assert roles_of(User.objects.get(username="nina")) == {"acme": {"viewer"}}


def test_the_link_is_shown_once(as_olga):
    assert link_in(as_olga.post("/people/invite", NINA))

    assert "/join/" not in as_olga.get("/people/").content.decode()


@pytest.mark.parametrize("wrong", [{"username": "olga"}, {"username": "a b"}, {"tenant": "globex"}])
def test_an_invitation_that_cannot_be_is_refused(wrong, as_olga, globex):
    before = User.objects.count()

    answer = as_olga.post("/people/invite", {**NINA, **wrong})

    assert (answer.status_code, User.objects.count()) == (422, before)


def test_only_operators_see_the_page(as_alice, as_vera):
    assert (as_alice.get("/people/").status_code, as_vera.get("/people/").status_code) == (403, 403)
    assert as_alice.post("/people/invite", NINA).status_code == 403


def test_people_of_other_tenants_are_out_of_reach(as_olga, carol_user):
    for path in ("role/give", "role/take", "active", "reset", "link"):
        answer = as_olga.post(f"/people/{carol_user.pk}/{path}", {"role": "acme viewer"})
        assert answer.status_code == 404, path
    assert "carol" not in as_olga.get("/people/").content.decode()


def test_an_account_that_another_tenant_has_too_is_not_closed_nor_reset(
    as_olga, alice_user, globex
):
    Membership.objects.create(user=alice_user, tenant=globex, role=Role.VIEWER)

    for path in ("active", "reset"):
        assert as_olga.post(f"/people/{alice_user.pk}/{path}").status_code == 404
    as_olga.post(f"/people/{alice_user.pk}/role/take", {"role": "acme approver"})

    assert roles_of(alice_user) == {"globex": {"viewer"}}


def test_roles_are_given_and_taken_sealed_and_told(as_olga, vera_user):
    as_olga.post(f"/people/{vera_user.pk}/role/give", {"role": "acme approver"})
    as_olga.post(f"/people/{vera_user.pk}/role/take", {"role": "acme viewer"})

    assert roles_of(vera_user) == {"acme": {"approver"}}
    assert [notice.event.kind for notice in vera_user.notices.order_by("pk")] == [
        "role_granted",
        "role_revoked",
    ]


def test_taking_a_role_says_what_it_changes_and_loses_nobody(as_olga, alice_user, bob_user):
    page = f"/people/{bob_user.pk}/"
    words = "They can no longer approve, reject or answer. Alice Moreau can, as before."
    assert words in as_olga.get(page).content.decode()

    as_olga.post(f"{page}role/take", {"role": "acme approver"})

    assert roles_of(bob_user) == {"acme": {"viewer"}}
    assert "Their last role" in as_olga.get(page).content.decode()
    told = as_olga.post(f"{page}role/take", {"role": "acme viewer"}, follow=True)
    assert "close the account instead" in told.content.decode()
    assert roles_of(bob_user) == {"acme": {"viewer"}}


def test_operators_are_made_and_let_go_by_two(as_olga, as_otto, otto_user, alice_user):
    as_olga.post(f"/people/{alice_user.pk}/role/give", {"role": "acme operator"})
    as_olga.post(f"/people/{otto_user.pk}/role/take", {"role": "acme operator"})
    as_olga.post(f"/people/{otto_user.pk}/active", {"active": "0"})
    otto_user.refresh_from_db()

    assert roles_of(alice_user) == {"acme": {"approver"}}
    assert (roles_of(otto_user), otto_user.is_active) == ({"acme": {"operator"}}, True)
    kinds = sorted(ChangeRequest.objects.values_list("kind", flat=True))
    assert kinds == ["role_granted", "role_revoked", "user_deactivated"]
    confirm_all(as_otto)
    assert roles_of(alice_user) == {"acme": {"approver", "operator"}}
    assert roles_of(otto_user) == {"acme": {"operator"}}, "nobody lets themselves go"


def test_an_operator_closes_an_account_and_opens_it_again(as_olga, alice_user, as_alice):
    as_olga.post(f"/people/{alice_user.pk}/active", {"active": "0"})
    closed = as_alice.get("/").status_code
    as_olga.post(f"/people/{alice_user.pk}/active", {"active": "1"})

    alice_user.refresh_from_db()
    assert (closed, alice_user.is_active) == (302, True)


def test_two_operators_reset_how_somebody_signs_in(as_olga, as_otto, alice_user, as_alice):
    secret = second_steps.new_secret()
    from tests.approvals.test_second_steps import code_of

    second_steps.add_app(alice_user, secret, code_of(secret))
    inside = Client()
    alice_user.last_login = alice_user.date_joined
    alice_user.save()
    as_olga.post(f"/people/{alice_user.pk}/reset")
    alice_user.refresh_from_db()
    untouched = alice_user.has_usable_password()

    [answer] = confirm_all(as_otto)

    alice_user.refresh_from_db()
    assert (untouched, alice_user.has_usable_password()) == (True, False)
    assert not second_steps.are_wanted(alice_user)
    assert as_alice.get("/").status_code == 302, "her sessions have ended"
    inside.post(link_in(answer), CHOSEN)
    assert inside.get("/account/").status_code == 200
    assert Event.objects.filter(kind="access_reset").count() == 1


def test_the_operator_who_got_the_link_is_no_second_person_for_a_while(
    as_olga, as_otto, alice_user, otto_user
):
    from approvals.people import independence

    as_olga.post(f"/people/{alice_user.pk}/reset")
    confirm_all(as_otto)

    assert independence.may_be_same_person(otto_user, alice_user)


def test_a_link_is_made_anew_only_for_who_has_not_come_in(as_olga, alice_user):
    first = link_in(as_olga.post("/people/invite", NINA))
    nina = User.objects.get(username="nina")

    second = link_in(as_olga.post(f"/people/{nina.pk}/link"))

    assert Client().get(first).status_code == 410
    assert Client().get(second).status_code == 200
    assert as_olga.post(f"/people/{alice_user.pk}/link").status_code == 404


def test_whoever_entered_an_address_may_be_the_same_person(as_olga, olga_user, alice_user):
    from approvals.people import accounts, independence, principal_of

    before = {"email": alice_user.email}
    alice_user.email = "olga@example.com"
    labels = {**{name: getattr(alice_user, name) for name in accounts.LABELS}, **before}
    accounts.relabelled(alice_user, labels, by=principal_of(olga_user), via="admin")

    assert independence.may_be_same_person(olga_user, alice_user)


# --- the page of one person ------------------------------------------------------------------


def test_a_person_has_a_page_with_roles_ways_in_and_sessions(as_olga, as_otto, vera_user, as_vera):
    as_olga.post(f"/people/{vera_user.pk}/role/give", {"role": "acme approver"})
    as_olga.post(f"/people/{vera_user.pk}/role/give", {"role": "acme operator"})
    key = Authenticator(b"secret-key-x")
    key.add_to(vera_user, "Vera's phone")

    page = as_otto.get(f"/people/{vera_user.pk}/").content.decode()

    assert "given by Olga Novak" in page
    assert "Vera&#x27;s phone" in page
    assert key.credential not in page
    change = ChangeRequest.objects.get()
    assert f'href="/changes/{change.pk}/"' in page
    assert vera_user.password not in page
    assert "Vera's phone" in as_vera.get("/account/").content.decode().replace("&#x27;", "'")


def test_an_operator_signs_somebody_out_everywhere_and_they_are_told(as_olga, olga_user):
    bob = User.objects.create_user("bobby", password="bobby")
    Membership.objects.create(user=bob, tenant_id="acme", role=Role.APPROVER)
    inside = Client()
    inside.post("/sign-in/", {"username": "bobby", "password": "bobby"})
    assert inside.get("/").status_code == 200
    page = as_olga.get(f"/people/{bob.pk}/").content.decode()
    assert "End them" in page

    as_olga.post(f"/people/{bob.pk}/sessions/end")
    again = as_olga.post(f"/people/{bob.pk}/sessions/end")

    assert (again.status_code, inside.get("/").status_code) == (302, 302)
    event = Event.objects.get(kind="sessions_ended")
    assert (event.principal, event.via) == (f"user:{olga_user.pk}", "web")
    inside.post("/sign-in/", {"username": "bobby", "password": "bobby"})
    assert "Olga Novak signed you out everywhere." in inside.get("/").content.decode()
    assert as_olga.post(f"/people/{olga_user.pk}/sessions/end").status_code == 404


def test_people_of_other_tenants_and_superusers_are_out_of_reach(as_olga, carol_user, acme, globex):
    root = User.objects.create_superuser("root", password="root")
    Membership.objects.create(user=root, tenant=acme, role=Role.VIEWER)
    both = User.objects.create_user("both", password="both", email="both@globex.example")
    for tenant in (acme, globex):
        Membership.objects.create(user=both, tenant=tenant, role=Role.VIEWER)

    assert as_olga.get(f"/people/{carol_user.pk}/").status_code == 404
    for person in (root, carol_user, both):
        for path in ("", "sessions/end", "active", "reset", "link"):
            answer = as_olga.post(f"/people/{person.pk}/{path}", {"email": "o@acme.example"})
            assert answer.status_code == 404, path
    page = as_olga.get(f"/people/{both.pk}/").content.decode()
    assert "you keep the roles here, and nothing else of it" in page
    assert ("Open sessions" in page, "both@globex.example" in page) == (False, False)


def test_only_operators_have_the_page_of_a_person(as_alice, as_vera, vera_user):
    for client in (as_alice, as_vera):
        assert client.get(f"/people/{vera_user.pk}/").status_code == 403
        assert client.post(f"/people/{vera_user.pk}/", {"first_name": "V"}).status_code == 403
