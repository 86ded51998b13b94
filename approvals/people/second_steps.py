"""Second steps of a sign-in: codes of an authenticator app, and recovery codes.

The rows are allauth's; the secrets in them are encrypted. A code counts once, in all processes.
"""

from __future__ import annotations

from collections.abc import Iterable

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.utils.crypto import constant_time_compare

from approvals.people.encrypted_authenticators import EncryptedAuthenticators
from approvals.people.principals import principal_of
from approvals.people.rights import record
from ledger.events.account_changes import ChangeKind
from ledger.principals import Surface

Type = Authenticator.Type
SECOND = (Type.TOTP, Type.WEBAUTHN)


def are_wanted(person: User) -> bool:
    """Whether a password alone does not let this person in."""
    return bool(Authenticator.objects.filter(user=person, type__in=SECOND).exists())


def has(person: User, kind: str) -> bool:
    return bool(Authenticator.objects.filter(user=person, type=kind).exists())


def new_secret() -> str:
    return str(totp.generate_totp_secret())


def add_app(person: User, secret: str, code: str) -> list[str] | None:
    """Add the authenticator app if the code is right: the new recovery codes, or ``None``."""
    step = _step_of(secret, code)
    if step is None:
        return None
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        encrypted = EncryptedAuthenticators().encrypt(secret)
        data = {"secret": encrypted, "step": step}
        Authenticator.objects.filter(user=person, type=Type.TOTP).delete()
        Authenticator.objects.create(user=person, type=Type.TOTP, data=data)
        _record(person, ChangeKind.AUTHENTICATOR_ADDED)
        return codes_for_first(person)


def remove_app(person: User) -> bool:
    """Remove the app. Returns False if there is none."""
    with atomic():
        rows = Authenticator.objects.filter(user=person, type=Type.TOTP)
        if not rows.delete()[0]:
            return False
        _record(person, ChangeKind.AUTHENTICATOR_REMOVED)
        drop_useless_codes(person)
    return True


def codes_for_first(person: User) -> list[str]:
    """New recovery codes with the first passkey or app; none if there are some already."""
    return [] if has(person, Type.RECOVERY_CODES) else new_codes(person)


def new_codes(person: User) -> list[str]:
    """New recovery codes; the old ones end. They are shown once."""
    with atomic():
        Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).delete()
        codes = RecoveryCodes.activate(person)
        _record(person, ChangeKind.RECOVERY_CODES_MADE)
        return list(codes.generate_codes())


def codes_left(person: User) -> int:
    row = Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).first()
    return len(RecoveryCodes(row).get_unused_codes()) if row else 0


def drop_useless_codes(person: User) -> None:
    """Recovery codes stand for a passkey or an app: without either they open nothing."""
    if not are_wanted(person):
        Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).delete()


def check_code(person: User, code: str) -> bool:
    """Use up a code of the app, or a recovery code. False if it is wrong or was used before."""
    plain = "".join(code.split()).replace("-", "")
    if not plain.isascii() or not plain.isdigit() or not are_wanted(person):
        return False
    with atomic():
        rows = Authenticator.objects.select_for_update().filter(
            user=person, type__in=[Type.TOTP, Type.RECOVERY_CODES]
        )
        return _is_right(person, list(rows), plain)


def _is_right(person: User, rows: Iterable[Authenticator], code: str) -> bool:
    for row in rows:
        if row.type == Type.TOTP and _uses_step(row, code):
            return True
        if row.type == Type.RECOVERY_CODES and RecoveryCodes(row).validate_code(code):
            row.record_usage()
            _record(person, ChangeKind.RECOVERY_CODE_USED)
            return True
    return False


def _uses_step(row: Authenticator, code: str) -> bool:
    """Whether the code is of a time after the last one that was used, which it is then."""
    step = _step_of(EncryptedAuthenticators().decrypt(row.data["secret"]), code)
    if step is None or step <= row.data.get("step", 0):
        return False
    row.data["step"] = step
    row.save(update_fields=["data"])
    row.record_usage()
    return True


def _step_of(secret: str, code: str) -> int | None:
    plain = "".join(code.split())
    for step in totp.yield_hotp_counters_from_time():
        if constant_time_compare(plain, totp.format_hotp_value(totp.hotp_value(secret, step))):
            return int(step)
    return None


def _record(person: User, kind: ChangeKind) -> None:
    record(person, kind, by=principal_of(person), via=Surface.WEB)
