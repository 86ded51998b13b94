"""Sign-in with the company, against a strict provider on this machine that can be made to lie."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from jwt.algorithms import RSAAlgorithm

from approvals.http.middleware import roles_of
from approvals.models import CompanyIdentity, LinkPurpose
from approvals.people import company_sign_in, principal_of
from approvals.people.sign_in import links, second_steps
from ledger.errors import NotAllowed
from ledger.models import Event, Group
from ledger.principals import Surface, system
from ledger.proof.audit import verification
from ledger.sign_off import groups
from ledger.transactions import coordinator
from tests.approvals.test_second_steps import code_of
from tests.conftest import signed_in
from tests.rules.conftest import activated, olga, otto  # noqa: F401

pytestmark = pytest.mark.django_db
CALLBACK = "http://localhost:8000/sign-in/company/callback"
SERVER = system("command", "olga on the server")
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Provider(ThreadingHTTPServer):
    """An OpenID Connect provider. ``claims`` and ``lies`` change what it puts into a token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.claims: dict[str, Any] = {"sub": "nina-1", "email": "alice@example.com"}
        self.signs_with: Any = KEY
        self.algorithm, self.kid = "RS256", "k1"
        self.calls_itself = self.issuer
        self.asked: dict[str, dict[str, str]] = {}  # by code

    def agree(self, address: str) -> dict[str, str]:
        """The person signs in there: the query with which the browser comes back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert query["redirect_uri"] == CALLBACK
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_hex(8)
        self.asked[code] = query
        return {"code": code, "state": query["state"], "iss": self.issuer}

    def token(self, form: dict[str, str]) -> str:
        asked = self.asked.pop(form["code"])
        challenge = base64.urlsafe_b64encode(
            hashlib.sha256(form["code_verifier"].encode()).digest()
        )
        assert challenge.rstrip(b"=").decode() == asked["code_challenge"]
        assert (form["client_id"], form["client_secret"]) == ("assent", "the secret")
        assert form["redirect_uri"] == CALLBACK
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "assent", "iat": now, "exp": now + 60}
        claims |= {"nonce": asked["nonce"], "auth_time": now, **self.claims}
        headers = {"kid": self.kid}
        return jwt.encode(claims, self.signs_with, algorithm=self.algorithm, headers=headers)


class Answers(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        base = self.server.issuer
        if self.path == company_sign_in.DISCOVERY:
            self._say(
                {
                    "issuer": self.server.calls_itself,
                    "authorization_endpoint": f"{base}/authorize",
                    "token_endpoint": f"{base}/token",
                    "jwks_uri": f"{base}/keys",
                }
            )
        else:
            key = RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
            self._say({"keys": [{**key, "kid": "k1", "alg": "RS256", "use": "sig"}]})

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        form = {name: v[0] for name, v in parse_qs(self.rfile.read(size).decode()).items()}
        self._say({"id_token": self.server.token(form), "token_type": "Bearer"})

    def _say(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    provider = Provider()
    serving = threading.Thread(target=provider.serve_forever, args=(0.02,))
    serving.start()
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = provider.issuer, "assent"
    settings.OIDC_CLIENT_SECRET, settings.OIDC_NAME = "the secret", "Example Inc."
    yield provider
    provider.shutdown()
    provider.server_close()
    serving.join()


def go(provider: Provider, client: Client, query: str = "", **changed: str) -> Any:
    """There and back."""
    there = client.get(f"/sign-in/company/{query}")["Location"]
    return client.get("/sign-in/company/callback", provider.agree(there) | changed)


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


@pytest.fixture
def nina(alice_user: User, provider: Provider) -> User:
    """Alice, who is known at the provider as nina-1."""
    CompanyIdentity.objects.create(user=alice_user, issuer=provider.issuer, subject="nina-1")
    return alice_user


def test_whoever_is_connected_signs_in(provider, nina):
    client = Client()

    answer = go(provider, client, "?next=/tools/")

    assert (answer["Location"], is_in(client)) == ("/tools/", True)


def test_an_address_in_a_token_opens_nobodys_account(provider, alice_user):
    alice_user.email = "alice@example.com"
    alice_user.save()
    client = Client()

    answer = go(provider, client, follow="")

    assert (answer["Location"], is_in(client)) == ("/sign-in/", False)
    assert not CompanyIdentity.objects.exists()
    assert "Example Inc. did not work" in client.get("/sign-in/").content.decode()


def test_nobody_gets_an_account_by_signing_in(provider, db):
    go(provider, Client())

    assert not User.objects.exists()


LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"claims": {"nonce": "another"}},
    "for another client": {"claims": {"aud": "another"}},
    "authorised for another": {"claims": {"aud": ["assent", "x"], "azp": "x"}},
    "of another issuer": {"claims": {"iss": "https://evil.example"}},
    "expired": {"claims": {"exp": 1_700_000_000}},
    "signed with another key": {"signs_with": OTHER_KEY},
    "signed with an unknown key": {"kid": "k2"},
    "signed with another algorithm than its key's": {"algorithm": "RS512"},
    "signed with our own secret": {"signs_with": "the secret" * 4, "algorithm": "HS256"},
    "not signed": {"signs_with": "", "algorithm": "none"},
    "from a provider with another name": {"calls_itself": "https://evil.example"},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_token_that_lies_opens_nothing(lie, provider, nina):
    client = Client()
    there = client.get("/sign-in/company/")["Location"]
    for name, value in LIES[lie].items():
        setattr(provider, name, {**provider.claims, **value} if name == "claims" else value)

    client.get("/sign-in/company/callback", provider.agree(there))

    assert not is_in(client)


def test_only_the_browser_that_began_may_finish(provider, nina):
    beginner, thief = Client(), Client()
    thief.get("/sign-in/company/")
    back = provider.agree(beginner.get("/sign-in/company/")["Location"])

    thief.get("/sign-in/company/callback", back)

    assert not is_in(thief)


@pytest.mark.parametrize("changed", [{"state": "another"}, {"iss": "https://evil.example"}])
def test_a_changed_way_back_is_refused(changed, provider, nina):
    client = Client()

    go(provider, client, **changed)

    assert not is_in(client)


def test_a_way_back_counts_once(provider, nina):
    client = Client()
    back = provider.agree(client.get("/sign-in/company/")["Location"])
    client.get("/sign-in/company/callback", back)
    client.post("/sign-out")

    client.get("/sign-in/company/callback", back)

    assert not is_in(client)


def test_a_closed_account_stays_closed(provider, nina):
    nina.is_active = False
    nina.save()
    client = Client()

    go(provider, client)

    assert not is_in(client)


def test_a_person_connects_their_account_after_they_were_asked_again(provider, alice_user):
    left_open = signed_in(alice_user)
    assert left_open.get("/sign-in/company/?for=connect").status_code == 404

    left_open.post("/account/confirm/", {"password": "alice"})
    go(provider, left_open, "?for=connect")

    identity = CompanyIdentity.objects.get()
    assert (identity.user, identity.subject) == (alice_user, "nina-1")
    assert Event.objects.filter(kind="company_connected").count() == 1


def test_an_identity_belongs_to_one_account(provider, nina, bob_user):
    bob = signed_in(bob_user)
    bob.post("/account/confirm/", {"password": "bob"})

    go(provider, bob, "?for=connect")

    assert CompanyIdentity.objects.get().user == nina


def test_an_invitation_is_taken_with_the_company(provider, alice_user):
    link = links.new_link(LinkPurpose.INVITE, alice_user)
    token, client = link.split("/")[-2], Client()

    go(provider, client, f"?for=join:{token}")
    go(provider, second := Client(), f"?for=join:{token}")

    assert CompanyIdentity.objects.get().user == alice_user
    assert (is_in(client), is_in(second)) == (True, False)


def test_a_person_without_password_confirms_with_the_company(provider, nina):
    nina.set_unusable_password()
    nina.save()
    client = signed_in(nina)
    there = client.get("/sign-in/company/?for=confirm&next=/account/app/")["Location"]

    answer = client.get("/sign-in/company/callback", provider.agree(there))

    assert "prompt=login" in there
    assert answer["Location"] == "/account/app/"
    assert client.get("/account/app/").status_code == 200


def test_a_provider_that_did_not_ask_anew_confirms_nothing(provider, nina):
    provider.claims["auth_time"] = int(time.time()) - 3600
    client = signed_in(nina)

    go(provider, client, "?for=confirm")

    assert client.get("/account/app/").status_code == 302


def test_roles_come_from_claims_only_where_the_settings_say_so(provider, nina, settings, globex):
    provider.claims |= {"groups": ["keepers", "staff"], "role": "operator"}
    go(provider, Client())
    before = roles_of(nina)

    settings.OIDC_ROLES = [
        "groups=keepers:operator@globex",
        "groups=managers:approver@acme",
        "groups=staff:viewer@nowhere",
    ]
    go(provider, Client())

    assert before == {"acme": {"approver"}}
    assert roles_of(nina) == {"globex": {"operator"}}
    given = Event.objects.filter(kind__in=["role_granted", "role_revoked"])
    given = given.exclude(principal="system:tests")
    assert {event.principal for event in given} == {"system:company"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("groups=keepers:king@acme", "'king' is no role"),
        ("keepers:operator@acme", "is not <claim>=<value>:<role or group>@<tenant>"),
    ],
)
def test_a_mapping_that_cannot_be_read_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        company_sign_in.Mapped.of_role(text)


# --- groups whose signature rules ask for --------------------------------------------------------


@pytest.fixture
def finance(acme, settings):
    settings.OIDC_GROUPS = ["groups=money:finance@acme", "role=cfo:finance@acme"]
    return groups.make("acme", "finance", by=SERVER, via=Surface.COMMAND)


def joined(group, person, by=SERVER):
    since = timezone.now()
    span = {"starts_at": since, "ends_at": None, "in_place_of": None}
    return groups.add(group, principal_of(person), **span, by=by, via=Surface.COMMAND)


def is_member(person) -> bool:
    return "finance" in groups.groups_of("acme", str(principal_of(person)))


def test_who_has_the_claim_is_in_the_group_until_they_sign_in_without_it(
    provider, nina, finance, as_olga
):
    provider.claims |= {"groups": ["money", "staff"]}
    go(provider, Client())
    go(provider, Client())
    assert is_member(nina)
    page = as_olga.get("/settings/rules/acme/groups/").content.decode()
    assert "by their sign-in with Example Inc." in page
    assert "At their next sign-in with Example Inc. they join again" in page

    provider.claims |= {"groups": ["staff"]}
    signed_in(nina).get("/")
    assert is_member(nina)
    go(provider, Client())

    assert not is_member(nina)
    told = [
        (event.kind, event.principal, event.via, json.loads(event.details)["claim"])
        for event in Event.objects.filter(kind__startswith="group_member_").order_by("seq")
    ]
    assert told == [
        ("group_member_added", "system:company", "web", "groups=money"),
        ("group_member_removed", "system:company", "web", "groups=money"),
    ]
    verification.verify()


def test_a_membership_made_by_hand_is_not_ended_by_a_claim_that_is_missing(provider, nina, finance):
    joined(finance, nina)

    go(provider, Client())

    assert is_member(nina)
    assert not Event.objects.filter(kind="group_member_removed").exists()


def test_one_of_two_claims_is_enough_and_a_member_who_was_removed_comes_back(
    provider, nina, finance
):
    provider.claims |= {"role": "cfo"}
    go(provider, Client())
    groups.remove(finance.members.get(), by=SERVER, via=Surface.COMMAND)
    assert not is_member(nina)

    go(provider, Client())

    assert is_member(nina)


def test_a_group_that_does_not_exist_is_named_on_its_page_and_keeps_nobody_out(
    provider, nina, finance, settings, as_olga, caplog
):
    caplog.set_level("WARNING", logger="approvals.people.company_sign_in")
    settings.OIDC_GROUPS = ["groups=money:nobody@acme", "groups=money:finance@acme"]
    provider.claims |= {"groups": "money"}

    go(provider, client := Client())

    assert is_in(client)
    assert is_member(nina)
    assert "nobody@acme, which does not exist" in caplog.text
    page = as_olga.get("/settings/rules/acme/groups/").content.decode()
    assert "names groups that do not exist: <bdi>nobody</bdi>" in page
    assert not Group.objects.filter(name="nobody").exists()


def test_an_approval_by_a_member_of_the_company_fills_the_seat_and_proves_itself(
    request, provider, nina, finance, a_transaction
):
    activate = request.getfixturevalue("activated")
    activate({"when": {"tool": "pay"}, "then": {"verdict": "ask", "seats": {"finance": 1}}})
    provider.claims |= {"groups": ["money"]}
    go(provider, Client())
    row = a_transaction("pay")

    coordinator.approve(row.pk, digest=row.intent_digest, by=principal_of(nina), via=Surface.WEB)

    row.refresh_from_db()
    assert row.state == "approved"
    verification.verify()


def test_an_agent_is_never_kept_in_a_group(finance, helpdesk):
    with pytest.raises(NotAllowed):
        groups.keep_in_step(
            finance,
            helpdesk.principal,
            belongs=True,
            claim="groups=money",
            by=company_sign_in.COMPANY,
            via=Surface.WEB,
        )


def test_without_a_provider_there_is_no_such_sign_in(db):
    assert Client().get("/sign-in/company/").status_code == 404


def test_failures_of_the_company_sign_in_count_for_the_address(provider, nina):
    client = Client()
    back = provider.agree(client.get("/sign-in/company/")["Location"])
    for _ in range(25):
        Client().get("/sign-in/company/callback", {"state": "guessed", "code": "guessed"})

    client.get("/sign-in/company/callback", back)

    assert not is_in(client)


# --- attacks -------------------------------------------------------------------------------------


def stored_sessions() -> str:
    return json.dumps([row.get_decoded() for row in Session.objects.all()])


def test_who_has_a_second_step_is_not_confirmed_by_the_company_alone(provider, nina):
    secret = second_steps.new_secret()
    second_steps.add_app(nina, secret, code_of(secret, -1))
    left_open = signed_in(nina)

    there = left_open.get("/sign-in/company/?for=confirm")
    if there.status_code == 302:
        left_open.get("/sign-in/company/callback", provider.agree(there["Location"]))

    assert left_open.post("/account/app/remove")["Location"].startswith("/account/confirm/")


def test_another_site_begins_no_connection_in_somebodys_browser(provider, alice_user):
    victim = Client()
    victim.post("/sign-in/", {"username": "alice", "password": "alice"})

    answer = victim.get("/sign-in/company/?for=connect", headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 404


def test_the_token_of_an_invitation_is_in_no_session(provider, alice_user):
    token = links.new_link(LinkPurpose.INVITE, alice_user).split("/")[4]
    client = Client()

    there = client.get(f"/sign-in/company/?for=join:{token}")["Location"]

    assert token not in stored_sessions()
    client.get("/sign-in/company/callback", provider.agree(there))
    assert is_in(client)


STRANGE: list[dict[str, Any]] = [
    {"sub": "a\0b"},
    {"sub": "x" * 5000},
    {"sub": 7},
    {"sub": ["nina-1"]},
    {"nonce": {"a": 1}},
    {"azp": ["assent"]},
    {"exp": "never"},
    {"auth_time": "now"},
]


@pytest.mark.parametrize("claims", STRANGE)
def test_no_strange_claim_breaks_the_way_back(claims, provider, nina):
    client = Client(raise_request_exception=False)
    client.force_login(nina)
    provider.claims |= claims
    there = client.get("/sign-in/company/?for=confirm")["Location"]

    answer = client.get("/sign-in/company/callback", provider.agree(there))

    assert answer.status_code == 302


class Dripping(BaseHTTPRequestHandler):
    """A provider that is never silent for long and never done."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while not self.server.has_ended.wait(0.05):  # type: ignore[attr-defined]
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            pass

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def dripping(settings: Any) -> Iterator[None]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    server.has_ended = threading.Event()
    serving = threading.Thread(target=server.serve_forever, args=(0.02,))
    serving.start()
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = f"http://127.0.0.1:{server.server_port}", "a"
    yield
    server.has_ended.set()
    server.shutdown()
    server.server_close()
    serving.join()


def test_a_provider_that_never_ends_keeps_few_threads_and_not_for_long(dripping, monkeypatch):
    monkeypatch.setattr(company_sign_in, "WITHIN_S", 1.0)

    def seconds_of_start(_: int) -> float:
        begun = time.monotonic()
        with pytest.raises(company_sign_in.CompanyRefused):
            company_sign_in.start("sign-in", "")
        return time.monotonic() - begun

    with ThreadPoolExecutor(8) as threads:
        taken = sorted(threads.map(seconds_of_start, range(8)))

    assert taken[5] < company_sign_in.WITHIN_S, "all but two are refused at once"
    assert taken[-1] < 10 * company_sign_in.WITHIN_S
