"""Passkeys (WebAuthn): added, removed, and used for signing in.

A passkey has to verify its user (fingerprint, face, PIN), so it is a password and a second step at
once. A browser's answer counts for the address of this installation only.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.models.functions import Now
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

from approvals.models import Passkey
from approvals.people.account_log import record_own
from approvals.people.principals import name_of
from approvals.people.sign_in import second_steps
from ledger.api.http import parse_json
from ledger.errors import NotPossible
from ledger.events import ChangeKind

LONGEST_NAME = 60
MOST = 20  # of one person
State = dict[str, Any]


def server() -> Fido2Server:
    """For the host of ``PUBLIC_URL``, and from exactly that origin."""
    ours = urlsplit(settings.PUBLIC_URL)
    entity = PublicKeyCredentialRpEntity(id=ours.hostname or "localhost", name="Assent")
    origin = f"{ours.scheme}://{ours.netloc}"
    return Fido2Server(entity, verify_origin=lambda claimed: claimed == origin)


def begin_registering_passkey(person: User) -> tuple[dict[str, Any], State]:
    """Options for the browser that makes a passkey, and the state that ``add`` takes."""
    if passkeys_of(person).count() >= MOST:
        raise NotPossible(_("You have too many passkeys. Remove one first."))
    entity = PublicKeyCredentialUserEntity(
        id=handle_of(person), name=person.get_username(), display_name=name_of(person)
    )
    options, state = server().register_begin(
        entity,
        _credentials(person),
        resident_key_requirement=ResidentKeyRequirement.REQUIRED,
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return dict(options), state


def register_passkey(person: User, state: State, answer: str, name: str) -> list[str]:
    """Add the passkey: new recovery codes, if it is the first. Raises ``NotPossible``."""
    content = _content(answer)
    try:
        made = server().register_complete(state, RegistrationResponse.from_dict(content))
        if made.credential_data is None:
            raise ValueError("no credential")
    except (ValueError, TypeError, KeyError) as failure:
        raise NotPossible(_("The browser's answer does not fit. Nothing was added.")) from failure
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        name = name.strip()[:LONGEST_NAME] or "Passkey"
        Passkey.objects.create(user=person, name=name, credential=bytes(made.credential_data))
        record_own(person, ChangeKind.PASSKEY_ADDED, passkey=name)
        return second_steps.codes_for_first(person)


def delete_passkey(person: User, passkey_id: int) -> bool:
    """Remove a passkey. Returns False if the person has no such one."""
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        row = passkeys_of(person).filter(pk=passkey_id).first()
        if row is None:
            return False
        row.delete()
        record_own(person, ChangeKind.PASSKEY_REMOVED, passkey=row.name)
        second_steps.drop_useless_codes(person)
    return True


def passkeys_of(person: User) -> QuerySet[Passkey]:
    return Passkey.objects.filter(user=person).order_by("pk")


def begin_using_passkey(person: User | None = None) -> tuple[dict[str, Any], State]:
    """Options for the browser that uses a passkey of this person, or any that it has for us."""
    known = _credentials(person) if person else None
    options, state = server().authenticate_begin(
        known, user_verification=UserVerificationRequirement.REQUIRED
    )
    return dict(options), state


def person_with_passkey(state: State, answer: str) -> User | None:
    """The person whose passkey signed the challenge. The caller looks whether it counts."""
    try:
        response = AuthenticationResponse.from_dict(_content(answer))
        person = _named(response.response.user_handle)
        if person is None:
            return None
        used = server().authenticate_complete(state, _credentials(person), response)
    except (NotPossible, ValueError, TypeError, KeyError):
        return None
    passkeys_of(person).filter(credential=bytes(used)).update(last_used_at=Now())
    return person


def _content(answer: str) -> dict[str, Any]:
    """The JSON object with which a browser answers. Raises ``NotPossible``."""
    try:
        content = parse_json(answer)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise NotPossible(_("The browser's answer cannot be read."))
    return content


def _named(handle: bytes | None) -> User | None:
    text = (handle or b"").decode("ascii")
    return User.objects.filter(pk=int(text), is_active=True).first() if text.isdecimal() else None


def handle_of(person: User) -> bytes:
    return str(person.pk).encode()


def _credentials(person: User) -> list[AttestedCredentialData]:
    return [AttestedCredentialData(bytes(row.credential)) for row in passkeys_of(person)]
