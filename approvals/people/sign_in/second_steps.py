"""Second steps of a sign-in: codes of an authenticator app (RFC 6238), and recovery codes.

A code counts once, in all processes: the row that knows it is locked while it is used up.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from urllib.parse import quote, urlencode

from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.utils.crypto import constant_time_compare

from approvals.models import AuthenticatorApp, Passkey, RecoveryCodes
from approvals.people.account_log import record_own
from ledger.events import ChangeKind

ISSUER = "Assent"
SECRET_BYTES = 20  # as many as SHA-1 has: RFC 4226, section 4
STEP_S, DIGITS = 30, 6
STEPS_APART = 1  # so far may the clock of the app be from ours
RECOVERY_CODES, RECOVERY_DIGITS = 10, 8


def are_wanted(person: User) -> bool:
    """True if a password alone does not let this person in."""
    return has_app(person) or Passkey.objects.filter(user=person).exists()


def has_app(person: User) -> bool:
    return AuthenticatorApp.objects.filter(user=person).exists()


def has_codes(person: User) -> bool:
    return RecoveryCodes.objects.filter(user=person).exists()


def new_secret() -> str:
    return base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode()


def setup_address(person: User, secret: str) -> str:
    """The address that an app reads from a QR code."""
    query = urlencode({"secret": secret, "issuer": ISSUER})
    return f"otpauth://totp/{quote(person.get_username())}?{query}"


def add_app(person: User, secret: str, code: str) -> list[str] | None:
    """Add the authenticator app if the code is right: the new recovery codes, or ``None``."""
    step = _step_of(secret, code)
    if step is None:
        return None
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        AuthenticatorApp.objects.filter(user=person).delete()
        AuthenticatorApp.objects.create(user=person, secret=secret, last_step=step)
        record_own(person, ChangeKind.AUTHENTICATOR_ADDED)
        return codes_for_first(person)


def remove_app(person: User) -> bool:
    """Remove the app. Returns False if there is none."""
    with atomic():
        if not AuthenticatorApp.objects.filter(user=person).delete()[0]:
            return False
        record_own(person, ChangeKind.AUTHENTICATOR_REMOVED)
        drop_useless_codes(person)
    return True


def codes_for_first(person: User) -> list[str]:
    """New recovery codes with the first passkey or app; none if there are some already."""
    return [] if has_codes(person) else new_codes(person)


def new_codes(person: User) -> list[str]:
    """New recovery codes; the old ones end. They are shown once."""
    numbers = secrets.SystemRandom().sample(range(10**RECOVERY_DIGITS), RECOVERY_CODES)
    codes = [f"{number:0{RECOVERY_DIGITS}}" for number in numbers]
    with atomic():
        RecoveryCodes.objects.filter(user=person).delete()
        RecoveryCodes.objects.create(user=person, codes=" ".join(codes))
        record_own(person, ChangeKind.RECOVERY_CODES_MADE)
    return codes


def codes_left(person: User) -> int:
    row = RecoveryCodes.objects.filter(user=person).first()
    return len(row.codes.split()) if row else 0


def drop_useless_codes(person: User) -> None:
    """Recovery codes stand for a passkey or an app: without either they open nothing."""
    if not are_wanted(person):
        RecoveryCodes.objects.filter(user=person).delete()


def check_code(person: User, code: str) -> bool:
    """Use up a code of the app, or a recovery code. False if it is wrong or was used before."""
    plain = "".join(code.split()).replace("-", "")
    if not plain.isascii() or not plain.isdigit() or not are_wanted(person):
        return False
    with atomic():
        return _uses_app(person, plain) or _uses_recovery_code(person, plain)


def _uses_app(person: User, code: str) -> bool:
    """Use up a code of the app, which has to be of a later time than the last one used."""
    app = AuthenticatorApp.objects.select_for_update().filter(user=person).first()
    step = _step_of(app.secret, code) if app else None
    if app is None or step is None or step <= app.last_step:
        return False
    app.last_step = step
    app.save(update_fields=["last_step"])
    return True


def _uses_recovery_code(person: User, code: str) -> bool:
    row = RecoveryCodes.objects.select_for_update().filter(user=person).first()
    codes = row.codes.split() if row else []
    left = [each for each in codes if not constant_time_compare(each, code)]
    if row is None or len(left) == len(codes):
        return False
    row.codes = " ".join(left)
    row.save(update_fields=["codes"])
    record_own(person, ChangeKind.RECOVERY_CODE_USED)
    return True


def _step_of(secret: str, code: str) -> int | None:
    plain, now = "".join(code.split()), int(time.time()) // STEP_S
    for step in range(now - STEPS_APART, now + STEPS_APART + 1):
        if constant_time_compare(plain, code_at(secret, step)):
            return step
    return None


def code_at(secret: str, step: int) -> str:
    """The code that an app with this secret shows in this time step."""
    digest = hmac.digest(base64.b32decode(secret), step.to_bytes(8, "big"), "sha1")
    start = digest[-1] & 0x0F
    number = int.from_bytes(digest[start : start + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"
