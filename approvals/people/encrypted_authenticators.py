"""Secrets of authenticator apps and recovery codes, encrypted in allauth's table."""

from __future__ import annotations

from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db.transaction import atomic

from ledger import encryption

PLACE = "mfa_authenticator.data"
SECRETS = ("secret", "seed")


class EncryptedAuthenticators(DefaultMFAAdapter):
    def encrypt(self, text: str) -> str:
        return encryption.encrypt(text, PLACE)

    def decrypt(self, encrypted_text: str) -> str:
        return encryption.decrypt(encrypted_text, PLACE)

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        """Not here: a sealed event of the account tells the person."""


def encrypt_anew() -> tuple[str, int]:
    """For ``manage.py rotate_secrets``: the name of the secrets, and how many rows were written."""
    number = 0
    for pk in Authenticator.objects.values_list("pk", flat=True).iterator():
        with atomic():
            row = Authenticator.objects.select_for_update().filter(pk=pk).first()
            known = [name for name in SECRETS if row is not None and name in row.data]
            for name in known:
                plain = encryption.decrypt(row.data[name], PLACE)
                row.data[name] = encryption.encrypt(plain, PLACE)
            if known:
                row.save(update_fields=["data"])
                number += 1
    return "Authenticator apps and recovery codes", number


def totp_image(person: User, secret: str) -> str:
    """The QR code of the secret, as an SVG picture."""
    adapter = EncryptedAuthenticators()
    return str(adapter.build_totp_svg(adapter.build_totp_url(person, secret)))
