"""Sign-in with the company: OpenID Connect with code flow, PKCE and verified ID tokens.

An identity opens only the account that it was connected with: by its person, signed in and
confirmed, or by an invitation. The e-mail address in a token attaches nothing to anything.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import jwt
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.db.transaction import atomic
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from approvals.models import CompanyIdentity, Role
from approvals.people import accounts
from approvals.people.account_log import record_own
from approvals.people.principals import principal_of
from ledger.errors import NotPossible
from ledger.events import ChangeKind
from ledger.foundation import http_out
from ledger.models import Group, Tenant
from ledger.principals import Principal, Surface, system
from ledger.sign_off import groups

logger = logging.getLogger(__name__)

# Signed with the provider's private key: never `none`, never the client secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
DISCOVERY = "/.well-known/openid-configuration"
WITHIN_S = 5.0  # for each question
# A provider that hangs keeps so many of a process's threads, and the others have theirs.
asking = threading.BoundedSemaphore(2)
STARTED_FOR_S = 600
LARGEST = 256 * 1024  # bytes of one answer of the provider
LEEWAY_S = 30
LONGEST_SUBJECT = 255
Claims = Mapping[str, Any]


class CompanyRefused(Exception):
    """The provider's answer does not count. The text says why, for the log of the web process."""


@dataclass(frozen=True, slots=True)
class Start:
    """An address for the browser, and the state that its session keeps for the way back."""

    address: str
    kept: dict[str, Any]


def is_configured() -> bool:
    return bool(settings.OIDC_ISSUER and settings.OIDC_CLIENT_ID)


def callback_address() -> str:
    return f"{settings.PUBLIC_URL.rstrip('/')}/sign-in/company/callback"


def start(purpose: str, next_page: str, *, confirms: bool = False) -> Start:
    """Begin. With ``confirms`` the provider has to ask the person anew. ``CompanyRefused``."""
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
    query = {
        "response_type": "code",
        "client_id": settings.OIDC_CLIENT_ID,
        "redirect_uri": callback_address(),
        "scope": "openid profile email",
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge.rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    if confirms:
        query |= {"prompt": "login", "max_age": "0"}
    kept: dict[str, Any] = {
        "state": state,
        "nonce": nonce,
        "verifier": verifier,
        "purpose": purpose,
    }
    kept |= {"next": next_page, "at": time.time(), "confirms": confirms}
    endpoint = _discovered()["authorization_endpoint"]
    return Start(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", kept)


def finish(kept: Mapping[str, Any], query: Mapping[str, str]) -> Claims:
    """The verified claims of whoever came back. Raises ``CompanyRefused``."""
    if not kept or time.time() - kept["at"] > STARTED_FOR_S:
        raise CompanyRefused("nobody started here, or too long ago")
    if not constant_time_compare(query.get("state", ""), kept["state"]):
        raise CompanyRefused("another state came back")
    if "error" in query or not query.get("code"):
        raise CompanyRefused(f"the provider said {query.get('error', 'nothing')!r}")
    provider = _discovered()
    if query.get("iss", provider["issuer"]) != provider["issuer"]:
        raise CompanyRefused("another issuer answered")
    token = _token(provider, query["code"], kept["verifier"])
    claims = verified(token, provider["jwks_uri"], kept["nonce"])
    if kept["confirms"] and not _is_since(claims.get("auth_time"), kept["at"] - LEEWAY_S):
        raise CompanyRefused("the provider did not ask the person anew")
    return claims


def _is_since(claimed: object, moment: float) -> bool:
    return isinstance(claimed, int | float) and claimed >= moment


def verified(token: str, keys_at: str, nonce: str) -> Claims:
    """The claims of an ID token of our issuer, for us, in answer to this nonce."""
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS:
            raise CompanyRefused(f"an ID token signed with {header.get('alg')!r}")
        claims: dict[str, Any] = jwt.decode(
            token,
            _key(keys_at, header),
            algorithms=[header["alg"]],
            audience=settings.OIDC_CLIENT_ID,
            issuer=settings.OIDC_ISSUER,
            leeway=LEEWAY_S,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    except jwt.PyJWTError as failure:
        raise CompanyRefused(f"the ID token does not count: {failure}") from failure
    if not constant_time_compare(str(claims.get("nonce", "")), nonce):
        raise CompanyRefused("the ID token answers another nonce")
    if claims.get("azp", settings.OIDC_CLIENT_ID) != settings.OIDC_CLIENT_ID:
        raise CompanyRefused("the ID token is for another client")
    if not 0 < len(str(claims["sub"])) <= LONGEST_SUBJECT or "\0" in str(claims["sub"]):
        raise CompanyRefused("the ID token names nobody whom we can know again")
    return claims


def _key(keys_at: str, header: Mapping[str, Any]) -> Any:
    keys = _asked("GET", keys_at).get("keys", [])
    fitting = [each for each in keys if each.get("kid") == header.get("kid")]
    if len(fitting) != 1:
        raise CompanyRefused("no key of the provider has signed the ID token")
    if fitting[0].get("alg", header["alg"]) != header["alg"]:
        raise CompanyRefused("the key of the ID token is for another algorithm")
    return jwt.PyJWK.from_dict(fitting[0], header["alg"]).key


def _token(provider: Mapping[str, Any], code: str, verifier: str) -> str:
    body = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback_address(),
        "client_id": settings.OIDC_CLIENT_ID,
        "code_verifier": verifier,
    }
    if settings.OIDC_CLIENT_SECRET:
        body["client_secret"] = settings.OIDC_CLIENT_SECRET
    answer = _asked("POST", provider["token_endpoint"], data=body)
    return str(answer.get("id_token", ""))


def _discovered() -> dict[str, Any]:
    """The provider's configuration. Raises ``CompanyRefused`` if it is of another provider."""
    configuration = _asked("GET", f"{settings.OIDC_ISSUER.rstrip('/')}{DISCOVERY}")
    wanted = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
    if not all(isinstance(configuration.get(name), str) for name in wanted):
        raise CompanyRefused("the provider's configuration is not complete")
    if configuration["issuer"] != settings.OIDC_ISSUER:
        raise CompanyRefused("the provider calls itself by another issuer")
    for name in wanted[1:]:
        _require_safe(configuration[name])
    return configuration


def _require_safe(address: str) -> None:
    """HTTPS, or this very machine."""
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        raise CompanyRefused(f"{parts.hostname} is not asked without TLS")


def _asked(method: str, address: str, **more: Any) -> dict[str, Any]:
    """The JSON answer. The issuer is the operator's choice, so it may be in our own network."""
    _require_safe(address)
    if not asking.acquire(blocking=False):
        raise CompanyRefused("too many wait for the provider at this moment")
    try:
        answer = asyncio.run(_answer(method, address, more))
        if answer.status_code != 200:
            raise CompanyRefused(f"{address} answered {answer.status_code}")
        content = answer.json()
    except (httpx.HTTPError, TimeoutError, ValueError) as failure:
        raise CompanyRefused(f"{address} cannot be read: {failure!r}") from failure
    finally:
        asking.release()
    if not isinstance(content, dict):
        raise CompanyRefused(f"{address} answered something else than an object")
    return content


async def _answer(method: str, address: str, more: Mapping[str, Any]) -> httpx.Response:
    transport = http_out.SafeTransport(largest_answer=LARGEST, any_network=True)
    async with http_out.client(transport, timeout_s=WITHIN_S) as client:
        return await client.request(
            method, address, headers={"Accept": "application/json"}, follow_redirects=False, **more
        )


# --- identities ---------------------------------------------------------------------------------


def person_of(claims: Claims) -> User | None:
    """The person who connected this identity; ``None`` also for a closed account."""
    row = CompanyIdentity.objects.select_related("user").filter(**_identity(claims)).first()
    return row.user if row is not None and row.user.is_active else None


def connect(person: User, claims: Claims) -> None:
    """Connect the identity with this account. Raises ``NotPossible`` if it is another's."""
    try:
        with atomic():
            CompanyIdentity.objects.filter(user=person, issuer=claims["iss"]).delete()
            CompanyIdentity.objects.create(user=person, **_identity(claims))
            _record(person, ChangeKind.COMPANY_CONNECTED)
    except IntegrityError:
        raise NotPossible(
            _("This identity belongs to another account. Nothing was connected.")
        ) from None


def disconnect(person: User) -> bool:
    """Returns False if the account is not connected."""
    with atomic():
        if not CompanyIdentity.objects.filter(user=person).delete()[0]:
            return False
        _record(person, ChangeKind.COMPANY_DISCONNECTED)
    return True


def _identity(claims: Claims) -> dict[str, str]:
    return {"issuer": str(claims["iss"]), "subject": str(claims["sub"])}


def _record(person: User, kind: ChangeKind) -> None:
    record_own(person, kind, company=settings.OIDC_NAME)


COMPANY = system("company", "Sign-in with the company")


@dataclass(frozen=True, slots=True)
class Mapped:
    """One entry: this value of this claim stands for this role, or group, of the tenant."""

    claim: str
    value: str
    goal: str
    tenant: str

    @classmethod
    def parse(cls, text: str) -> Mapped:
        claim, _equals, rest = text.partition("=")
        value, _colon, place = rest.rpartition(":")
        goal, _at, tenant = place.partition("@")
        if not (claim and value and goal and tenant):
            raise ValueError(f"{text!r} is not <claim>=<value>:<role or group>@<tenant>.")
        return cls(claim, value, goal, tenant)

    @classmethod
    def of_role(cls, text: str) -> Mapped:
        """An entry of ``ASSENT_OIDC_ROLES``."""
        mapped = cls.parse(text)
        if mapped.goal not in Role.values:
            raise ValueError(f"ASSENT_OIDC_ROLES: {mapped.goal!r} is no role.")
        return mapped

    def fits(self, claims: Claims) -> bool:
        claimed = claims.get(self.claim)
        return self.value in claimed if isinstance(claimed, list) else claimed == self.value


# Of entries that are not for claims of a sign-in: their values are groups that SCIM keeps.
OF_DIRECTORY = "scim"


def mapped_roles(*, of_directory: bool = False) -> list[Mapped]:
    """``ASSENT_OIDC_ROLES``: of claims, or of the directory's groups. Raises ``ValueError``."""
    entries = map(Mapped.of_role, settings.OIDC_ROLES)
    return [each for each in entries if (each.claim == OF_DIRECTORY) == of_directory]


def mapped_groups(*, of_directory: bool = False) -> list[Mapped]:
    """``ASSENT_OIDC_GROUPS``, as ``mapped_roles``."""
    entries = map(Mapped.parse, settings.OIDC_GROUPS)
    return [each for each in entries if (each.claim == OF_DIRECTORY) == of_directory]


def apply_claims(person: User, claims: Claims) -> None:
    """Keep the roles and groups of a person in step with the claims of their sign-in."""
    origin: dict[str, Any] = {"by": COMPANY, "via": Surface.WEB}
    apply_roles(person, claims, mapped_roles(), **origin)
    apply_groups(person, claims, mapped_groups(), **origin)


def apply_roles(
    person: User, claims: Claims, mapped: Collection[Mapped], *, by: Principal, via: Surface
) -> None:
    """Give and take the roles that these entries name; without any nothing changes."""
    known = set(Tenant.objects.values_list("slug", flat=True))
    every = {(each.tenant, each.goal) for each in mapped if each.tenant in known}
    given = {(each.tenant, each.goal) for each in mapped if each.fits(claims)} & every
    for tenant, role in sorted(given):
        accounts.give_role(person, tenant, role, by=by, via=via)
    for tenant, role in sorted(every - given):
        accounts.take_role(person, tenant, role, by=by, via=via)


def apply_groups(
    person: User, claims: Claims, mapped: Collection[Mapped], *, by: Principal, via: Surface
) -> None:
    """Have them in the groups that these entries name for their claims, and no others.

    A membership that operators made stays. A group that does not exist is made by nobody here.
    """
    for (tenant, name), entries in _by_group(mapped).items():
        group = Group.objects.filter(tenant=tenant, name=name).first()
        if group is None:
            logger.warning("ASSENT_OIDC_GROUPS names %s@%s, which does not exist", name, tenant)
            continue
        fitting = [each for each in entries if each.fits(claims)]
        first = (fitting or entries)[0]
        groups.keep_in_step(
            group,
            principal_of(person),
            belongs=bool(fitting),
            claim=f"{first.claim}={first.value}",
            by=by,
            via=via,
        )


def unknown_groups(tenant: str) -> list[str]:
    """Groups of ``ASSENT_OIDC_GROUPS`` that this tenant does not have: nobody gets into them."""
    every = [*mapped_groups(), *mapped_groups(of_directory=True)]
    named = {each.goal for each in every if each.tenant == tenant}
    return sorted(named - {*Group.objects.filter(tenant=tenant).values_list("name", flat=True)})


def _by_group(mapped: Collection[Mapped]) -> dict[tuple[str, str], list[Mapped]]:
    entries: dict[tuple[str, str], list[Mapped]] = {}
    for each in mapped:
        entries.setdefault((each.tenant, each.goal), []).append(each)
    return entries
