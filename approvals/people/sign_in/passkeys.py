"""Passkeys (WebAuthn): added, removed, and used for signing in.

A passkey has to verify its user (fingerprint, face, PIN), so it is a password and a second step at
once. A browser's answer counts for the address of this installation only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils.translation import gettext as _
from fido2 import cbor
from fido2.server import Fido2Server
from fido2.utils import websafe_decode, websafe_encode
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
from ledger.sign_off.passkeys import ALGORITHMS, SigningKey, counter_of

LONGEST_NAME = 60
MOST = 20  # of one person
State = dict[str, Any]


def server() -> Fido2Server:
    """For the host of ``PUBLIC_URL``, and from exactly that origin."""
    host = urlsplit(settings.PUBLIC_URL).hostname or "localhost"
    entity = PublicKeyCredentialRpEntity(id=host, name="Assent")
    made = Fido2Server(entity, verify_origin=lambda claimed: claimed == origin())
    # Any passkey may come to sign decisions.
    made.allowed_algorithms = [each for each in made.allowed_algorithms if each.alg in ALGORITHMS]
    return made


def origin() -> str:
    """The address of this installation, as browsers have it."""
    ours = urlsplit(settings.PUBLIC_URL)
    return f"{ours.scheme}://{ours.netloc}"


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
        row = Passkey.objects.create(
            user=person,
            name=name,
            credential=bytes(made.credential_data),
            sign_count=made.counter,
        )
        record_own(person, ChangeKind.PASSKEY_ADDED, passkey=name, key=key_of(row).as_json())
        return second_steps.codes_for_first(person)


def delete_passkey(person: User, passkey_id: int) -> bool:
    """Remove a passkey. Returns False if the person has no such one."""
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        row = passkeys_of(person).filter(pk=passkey_id).first()
        if row is None:
            return False
        row.delete()
        credential = key_of(row).credential
        record_own(
            person, ChangeKind.PASSKEY_REMOVED, passkey=row.name, key={"credential": credential}
        )
        second_steps.drop_useless_codes(person)
    return True


def key_of(passkey: Passkey) -> SigningKey:
    """The public half of a passkey, and the address of this installation, where it was made."""
    made = AttestedCredentialData(bytes(passkey.credential))
    return SigningKey(
        credential=websafe_encode(made.credential_id),
        public_key=websafe_encode(cbor.encode(dict(made.public_key))),
        rp_id=str(server().rp.id),
        origin=origin(),
    )


def passkeys_of(person: User) -> QuerySet[Passkey]:
    return Passkey.objects.filter(user=person).order_by("pk")


def begin_using_passkey(
    person: User | None = None, only: Collection[str] = (), challenge: bytes | None = None
) -> tuple[dict[str, Any], State]:
    """Options for the browser that uses a passkey of this person, or any that it has for us; or
    that signs this challenge with one of those with the credentials ``only``.
    """
    known = _credentials(person) if person else None
    if known and only:
        known = [each for each in known if websafe_encode(each.credential_id) in only]
    options, state = server().authenticate_begin(
        known, UserVerificationRequirement.REQUIRED, challenge
    )
    return dict(options), state


def person_with_passkey(state: State, answer: str) -> User | None:
    """The person whose passkey signed the challenge. The caller looks whether it counts."""
    try:
        response = AuthenticationResponse.from_dict(_content(answer))
        person = _named(response.response.user_handle)
        if person is None:
            return None
        server().authenticate_complete(state, _credentials(person), response)
        use_passkey(person, answer)
    except (NotPossible, ValueError, TypeError, KeyError):
        return None
    return person


def answered_with(answer: str) -> dict[str, str]:
    """Credential, authenticator data, client data and signature of a browser's answer, each in
    base64url. Raises ``NotPossible``.
    """
    try:
        answered = AuthenticationResponse.from_dict(_content(answer))
    except (ValueError, TypeError, KeyError) as failure:
        raise NotPossible(_("The browser's answer cannot be read.")) from failure
    return {
        "credential": websafe_encode(answered.raw_id),
        "authenticator_data": websafe_encode(answered.response.authenticator_data),
        "client_data": websafe_encode(answered.response.client_data),
        "signature": websafe_encode(answered.response.signature),
    }


def use_passkey(person: User, answer: str) -> dict[str, str]:
    """Note that a passkey was used, and return what ``answered_with`` does.

    Raises ``NotPossible`` if its counter went back, as that of a copy does
    (https://www.w3.org/TR/webauthn-3/#sctn-sign-counter), or the person has it no more.
    """
    assertion = answered_with(answer)
    used = counter_of(assertion)
    wanted = websafe_decode(assertion["credential"])
    with atomic():
        for row in passkeys_of(person).select_for_update():
            if AttestedCredentialData(bytes(row.credential)).credential_id == wanted:
                if used <= row.sign_count and (used, row.sign_count) != (0, 0):
                    raise NotPossible(
                        _("The counter of this passkey went back: there may be a copy of it.")
                    )
                Passkey.objects.filter(pk=row.pk).update(last_used_at=Now(), sign_count=used)
                return assertion
    raise NotPossible(_("This passkey is not yours, or was removed."))


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
