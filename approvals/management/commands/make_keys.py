"""``manage.py make_keys``: prints a fresh set of keys as lines for .env."""

from __future__ import annotations

import secrets
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management.base import BaseCommand

from ledger.foundation.crypto.signing_keys import public_vapid_key

NAMES = (
    "SECRET_KEY",
    "CHANNELS_KEY",
    "AUDIT_KEY",
    "CARD_KEY",
    "PUSH_KEY",
    "TOOL_KEY",
    "PERMIT_KEY",
    "VAPID_KEY",
    "ENCRYPTION_KEYS",
)


class Command(BaseCommand):
    help = "Prints a fresh set of keys as lines for .env. Nothing is kept."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        keys = {name: secrets.token_hex(32) for name in NAMES}
        audit = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(keys["AUDIT_KEY"]))
        keys["VAPID_PUBLIC_KEY"] = public_vapid_key(keys["VAPID_KEY"])
        keys["AUDIT_PUBLIC_KEYS"] = audit.public_key().public_bytes_raw().hex()
        for name, key in keys.items():
            self.stdout.write(f"ASSENT_{name}={key}")
