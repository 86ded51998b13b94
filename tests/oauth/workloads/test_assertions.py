"""Tokens of trusted issuers: what they give, and all that gives nothing."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from datetime import timedelta

import jwt
import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.test import Client as Browser
from django.utils import timezone

from approvals.oauth import connections
from approvals.oauth.issuer_tables import Issuer, IssuerRule, UsedAssertion
from ledger import limits
from ledger.agents import caller_with
from ledger.models import AgentToken
from tests.oauth.workloads.conftest import CLAIMS, NAME, Key, exchange, fail_often

pytestmark = pytest.mark.django_db


def refused(answer) -> bool:
    return (
        answer.status_code == 400
        and answer.json()["error"] == "invalid_grant"
        and not AgentToken.objects.exists()
    )


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_program_becomes_its_agent_for_a_quarter_of_an_hour(issuer, algorithm):
    own = Key("own", algorithm)
    issuer.keys = [*issuer.keys, own.public]
    issuer.save()

    answer = exchange(own.token())

    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert (told["token_type"], told["expires_in"], told["scope"]) == ("Bearer", 900, "propose")
    assert str(caller_with(told["access_token"]).principal) == "agent:acme/helpdesk"
    row = AgentToken.objects.get()
    assert row.is_temporary
    assert row.issued_by.startswith(f"{NAME}#{issuer.pk} repo:acme/refunds")
    assert timedelta(minutes=14) < row.expires_at - timezone.now() < timedelta(minutes=16)


def test_a_token_for_mcp_opens_nothing_else(issuer, key):
    told = exchange(key.token(), resource="http://localhost:8000/mcp").json()

    assert caller_with(told["access_token"], "mcp") is not None
    assert caller_with(told["access_token"]) is None


def test_a_token_of_this_desk_for_a_stranger_is_not_given(issuer, key):
    answer = exchange(key.token(), resource="https://elsewhere.example/mcp")

    assert answer.json()["error"] == "invalid_target"
    assert not AgentToken.objects.exists()


def test_less_may_be_asked_for_and_never_more(issuer, key):
    less = exchange(key.token(), scope="propose:refund")
    more = [exchange(key.token(), scope=scope) for scope in ("decide", "propose decide", "work")]

    assert less.json()["scope"] == "propose:refund"
    assert {answer.json()["error"] for answer in more} == {"invalid_scope"}
    assert AgentToken.objects.count() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://elsewhere.example"},
        {"aud": None},
        {"aud": "http://localhost:8000/"},
        {"iss": NAME + "/"},
        {"iss": NAME.upper()},
        {"iss": None},
        {"iss": ["https://tokens.build.example"]},
        {"iss": "client-certificate"},
        {"exp": None},
        {"exp": timedelta(hours=-1)},
        {"exp": timedelta(hours=2)},
        {"exp": 10**400},
        {"exp": "soon"},
        {"nbf": timedelta(hours=1)},
        {"iat": timedelta(hours=1)},
        {"ref": "refs/heads/other"},
        {"ref": None},
        {"ref": ["refs/heads/main"]},
        {"repository": True},
    ],
)
def test_a_token_that_is_not_exactly_right_gives_nothing(issuer, key, changes):
    assert refused(exchange(key.token(**changes)))


def test_nothing_unsigned_counts(issuer, key):
    claims = jwt.decode(key.token(), options={"verify_signature": False})

    assert refused(exchange(jwt.encode(claims, None, "none")))


def test_the_public_key_is_no_shared_secret(issuer, key):
    symmetric = {"kty": "oct", "kid": "one", "k": urlsafe_b64encode(key.pem()).decode()}
    issuer.keys = [symmetric, key.public]
    issuer.save()
    head = urlsafe_b64encode(b'{"alg": "HS256", "kid": "one"}').rstrip(b"=")
    signed = head + b"." + key.token().split(".")[1].encode()
    seal = hmac.digest(key.pem(), signed, "sha256")
    forged = (signed + b"." + urlsafe_b64encode(seal).rstrip(b"=")).decode()

    assert refused(exchange(forged))


def test_a_key_counts_for_its_own_issuer_alone(issuer, key, acme, helpdesk):
    other = Key("one")
    row = Issuer.objects.create(
        tenant=acme, issuer="https://other.example", keys=[other.public], algorithms=["ES256"]
    )
    IssuerRule.objects.create(issuer=row, agent=helpdesk, claims=CLAIMS, scopes=["propose"])

    assert refused(exchange(other.token()))
    assert refused(exchange(key.token(iss="https://other.example")))


def test_an_algorithm_that_operators_did_not_choose_counts_nothing(issuer, key):
    issuer.algorithms = ["RS256"]
    issuer.save()

    assert refused(exchange(key.token()))


def test_a_small_key_is_not_trusted(issuer, key):
    small = Key("small", "RS256")
    small.public["n"] = small.public["n"][:128]
    issuer.keys = [small.public]
    issuer.save()

    assert refused(exchange(small.token()))


@pytest.mark.parametrize("token", ["", "a.b.c", "x" * 20_000, "e30.e30.", "[[[[", "\u20ac.a.b"])
def test_what_is_no_token_is_refused(issuer, token):
    assert refused(exchange(token))


@pytest.mark.parametrize(
    ("head", "claims"),
    [
        ({"alg": ["ES256"]}, {"iss": NAME}),
        ({"alg": {}}, {"iss": NAME}),
        ({"alg": "ES256"}, {"iss": "a\0"}),
        ({"alg": "ES256"}, {"iss": "\ud800"}),
    ],
)
def test_what_a_stranger_writes_into_a_token_is_refused_and_no_failure_of_ours(
    issuer, head, claims
):
    texts = (urlsafe_b64encode(json.dumps(part).encode()).decode() for part in (head, claims))

    assert refused(exchange(".".join([*(text.rstrip("=") for text in texts), "AAAA"])))


@pytest.mark.parametrize("changes", [{"sub": "a\0"}, {"sub": "\ud800"}, {"jti": "\ud800"}])
def test_a_signed_text_that_no_column_can_have_is_refused(issuer, key, changes):
    assert refused(exchange(key.token(**changes)))


def test_a_token_counts_once(issuer, key):
    token = key.token()

    first, second = exchange(token), exchange(token)

    assert first.status_code == 200
    assert second.json()["error"] == "invalid_grant"
    assert AgentToken.objects.count() == 1


def test_where_operators_allow_it_a_token_counts_until_it_expires(issuer, key):
    issuer.is_reusable = True
    issuer.save()
    token = key.token()

    assert [exchange(token).status_code for _ in range(2)] == [200, 200]


def test_two_rules_that_fit_are_none(issuer, key, supervisor):
    IssuerRule.objects.create(
        issuer=issuer, agent=supervisor, claims={"ref": CLAIMS["ref"]}, scopes=["decide"]
    )

    assert refused(exchange(key.token()))
    chosen = exchange(key.token(), client_id="acme/helpdesk").json()
    assert chosen["scope"] == "propose"


def test_a_rule_without_claims_fits_nothing(issuer, key):
    issuer.rules.update(claims={})

    assert refused(exchange(key.token()))


def test_an_agent_that_is_switched_off_gets_nothing(issuer, key, helpdesk):
    helpdesk.is_active = False
    helpdesk.save()

    assert refused(exchange(key.token()))


def test_keys_of_one_tenant_vouch_for_no_agent_of_another(issuer, key, globex, stranger):
    own = Key("one")
    row = Issuer.objects.create(tenant=globex, issuer=NAME, keys=[own.public], algorithms=["ES256"])
    IssuerRule.objects.create(issuer=row, agent=stranger, claims=CLAIMS, scopes=["propose"])

    ours, theirs = exchange(key.token()).json(), exchange(own.token()).json()

    assert caller_with(ours["access_token"]).tenant == "acme"
    assert caller_with(theirs["access_token"]).tenant == "globex"
    assert exchange(own.token(), client_id="acme/helpdesk").status_code == 400


def test_who_fails_again_and_again_has_to_wait(issuer, key):
    succeeded = {exchange(key.token()).status_code for _ in range(25)}
    first = exchange("no.token.here").status_code
    fail_often()

    assert (succeeded, first) == ({200}, 400)
    assert exchange(key.token()).status_code == 429


def test_who_fails_as_a_program_keeps_no_person_and_no_new_client_out(issuer, alice_user):
    fail_often()

    assert exchange("no.token.here").status_code == 429
    assert not limits.has_to_wait("127.0.0.1")
    assert not limits.has_to_wait("127.0.0.1", limits.Door.CLIENTS)
    alice = {"username": "alice", "password": "alice"}
    assert Browser().post("/sign-in/", alice).status_code == 302


def test_the_one_who_asks_is_not_told_why(issuer, key):
    answer = exchange(key.token(ref="refs/heads/other"))

    assert "check_issuer" in answer.json()["error_description"]
    assert "rule" not in answer.json()["error_description"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"aud": "x"}, "for 'x' .aud., not for 'http://localhost:8000'"),
        ({"exp": timedelta(hours=2)}, "at most 60"),
        ({"ref": "x"}, "No rule .* helpdesk: ref is 'x', not 'refs/heads/main'"),
        ({"iss": "https://x.example"}, "No active issuer"),
        ({"exp": timedelta(hours=-1)}, "expired"),
    ],
)
def test_the_command_says_why_and_never_shows_the_token(issuer, key, changes, words):
    token = key.token(**changes)

    with pytest.raises(CommandError, match=words) as refusal:
        call_command("check_issuer", token)

    assert not any(part in str(refusal.value) for part in token.split("."))


def test_the_command_uses_nothing_up(issuer, key, capsys):
    token = key.token()

    call_command("check_issuer", token)

    assert "helpdesk" in capsys.readouterr().out
    assert not AgentToken.objects.exists()
    assert exchange(token).status_code == 200
    with pytest.raises(CommandError, match="used before"):
        call_command("check_issuer", token)


def test_what_has_expired_is_forgotten(issuer, key):
    exchange(key.token())
    AgentToken.objects.update(expires_at=Now() - timedelta(minutes=1))
    UsedAssertion.objects.update(expires_at=Now() - timedelta(minutes=1))

    connections.forget_expired()

    assert not AgentToken.objects.exists()
    assert not UsedAssertion.objects.exists()
