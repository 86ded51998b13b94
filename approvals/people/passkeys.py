"""Passkeys (WebAuthn): added, removed, and used for signing in.

A passkey has to verify its user (fingerprint, face, PIN), so it is a password and a second step at
once. What the browser answers counts for the address of this installation only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.utils.translation import gettext as _
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from approvals.people import second_steps
from approvals.people.principals import name_of, principal_of
from approvals.people.rights import record
from ledger.errors import NotPossible
from ledger.events.account_changes import ChangeKind
from ledger.principals import Surface

LONGEST_NAME = 60
MOST = 20  # of one person
State = dict[str, Any]


def server() -> Fido2Server:
    """For the host of ``PUBLIC_URL``, and from exactly that origin."""
    ours = urlsplit(settings.PUBLIC_URL)
    entity = PublicKeyCredentialRpEntity(id=ours.hostname or "localhost", name="Assent")
    origin = f"{ours.scheme}://{ours.netloc}"
    return Fido2Server(entity, verify_origin=lambda claimed: claimed == origin)


def begin_adding(person: User) -> tuple[dict[str, Any], State]:
    """What the browser needs to make a passkey, and what ``add`` needs of it."""
    if Authenticator.objects.filter(user=person, type=second_steps.Type.WEBAUTHN).count() >= MOST:
        raise NotPossible(_("You have too many passkeys. Remove one first."))
    entity = PublicKeyCredentialUserEntity(
        id=handle_of(person), name=person.get_username(), display_name=name_of(person)
    )
    options, state = server().register_begin(
        entity,
        [credential for _row, credential in _credentials(person)],
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return dict(options), state


def add(person: User, state: State, answer: Mapping[str, Any], name: str) -> list[str]:
    """Add the passkey: new recovery codes, if it is the first. Raises ``NotPossible``."""
    try:
        if not isinstance(answer, dict):
            raise TypeError("not an object")
        server().register_complete(state, RegistrationResponse.from_dict(answer))
    except (ValueError, TypeError, KeyError) as failure:
        raise NotPossible(_("The browser's answer does not fit. Nothing was added.")) from failure
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        data = {"name": name.strip()[:LONGEST_NAME] or "Passkey", "credential": dict(answer)}
        Authenticator.objects.create(user=person, type=second_steps.Type.WEBAUTHN, data=data)
        record(
            person,
            ChangeKind.PASSKEY_ADDED,
            by=principal_of(person),
            via=Surface.WEB,
            passkey=data["name"],
        )
        return second_steps.codes_for_first(person)


def remove(person: User, passkey_id: int) -> bool:
    """Remove a passkey. Returns False if the person has no such one."""
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        row = of(person).filter(pk=passkey_id).first()
        if row is None:
            return False
        row.delete()
        record(
            person,
            ChangeKind.PASSKEY_REMOVED,
            by=principal_of(person),
            via=Surface.WEB,
            passkey=row.data["name"],
        )
        second_steps.drop_useless_codes(person)
    return True


def of(person: User) -> Any:
    return Authenticator.objects.filter(user=person, type=second_steps.Type.WEBAUTHN).order_by("pk")


def begin_using(person: User | None = None) -> tuple[dict[str, Any], State]:
    """What the browser needs to use a passkey: of this person, or any that it has for us."""
    known = [credential for _row, credential in _credentials(person)] if person else None
    options, state = server().authenticate_begin(
        known, user_verification=UserVerificationRequirement.REQUIRED
    )
    return dict(options), state


def person_of(state: State, answer: Mapping[str, Any]) -> User | None:
    """Whose passkey has signed the challenge, or ``None``. The caller looks whether it counts."""
    try:
        response = AuthenticationResponse.from_dict(answer)
        person = _named(response.response.user_handle)
        if person is None:
            return None
        known = _credentials(person)
        used = server().authenticate_complete(state, [each for _row, each in known], response)
    except (ValueError, TypeError, KeyError):
        return None
    for row, credential in known:
        if credential.credential_id == used.credential_id:
            row.record_usage()
            return person
    return None


def _named(handle: bytes | None) -> User | None:
    text = (handle or b"").decode("ascii")
    return User.objects.filter(pk=int(text), is_active=True).first() if text.isdecimal() else None


def handle_of(person: User) -> bytes:
    return str(person.pk).encode()


def _credentials(person: User) -> list[tuple[Authenticator, AttestedCredentialData]]:
    found = []
    for row in of(person):
        response = RegistrationResponse.from_dict(row.data["credential"])
        credential = response.response.attestation_object.auth_data.credential_data
        if credential is not None:
            found.append((row, credential))
    return found
