"""Checks of the keys that a process was given: those that it needs, and none of another's."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured

SWEEPER, WEB, COURIER, BUS = "sweeper", "web", "courier", "bus"
SIGN_TEXTS = frozenset({WEB, COURIER, SWEEPER, "slack"})  # links, buttons, names of subjects
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MIN_SECRET, MIN_DISTINCT = 50, 5  # characters, as in Django's own check
MAKE_KEY = "Make one with `openssl rand -hex 32`"


def is_public() -> bool:
    """True if the desk is served to other machines."""
    hosts = {urlsplit(url).hostname for url in (settings.PUBLIC_URL, settings.LIVE_URL)}
    return not hosts <= LOCAL_NAMES


def keys() -> Iterator[CheckMessage]:
    signing = {
        "ASSENT_AUDIT_KEY": [settings.AUDIT_KEY] if settings.AUDIT_KEY else [],
        "ASSENT_CARD_KEY": settings.CARD_KEYS,
        "ASSENT_PUSH_KEY": settings.PUSH_KEYS,
        "ASSENT_TOOL_KEY": settings.TOOL_KEYS,
        "ASSENT_PERMIT_KEY": settings.PERMIT_KEYS,
    }
    others = {
        "ASSENT_ENCRYPTION_KEYS": settings.ENCRYPTION_KEYS,
        "ASSENT_CHANNELS_KEY": settings.CHANNELS_KEYS,
    }
    for name, keys in {**signing, **others}.items():
        if not all(_is_key(key) for key in keys):
            yield Error(
                f"{name} cannot be read: a key is 32 bytes in hexadecimal, 64 digits.",
                hint=f"{MAKE_KEY}.",
                id="assent.E008",
            )
    if settings.VAPID_KEY and not _is_p256_key(settings.VAPID_KEY):
        yield Error(
            "ASSENT_VAPID_KEY cannot be read: a key is 32 bytes in hexadecimal, 64 digits.",
            hint="Make a pair with `manage.py make_keys`.",
            id="assent.E008",
        )
    every = [key.lower() for keys in signing.values() for key in set(keys)]
    if len(every) != len(set(every)):
        yield Error(
            "One key has two uses (audit log, agent card, push notifications).",
            hint="Make one key per use, so that a stolen key does not serve for the others.",
            id="assent.E009",
        )


def _is_key(text: str) -> bool:
    try:
        Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text))
    except ValueError:
        return False
    return True


def _is_p256_key(text: str) -> bool:
    try:
        ec.derive_private_key(int(text, 16), ec.SECP256R1())
    except ValueError:
        return False
    return len(text) == 64


def audit_key(role: str) -> Iterator[CheckMessage]:
    if role == SWEEPER and not settings.AUDIT_KEY:
        yield Error(
            "ASSENT_AUDIT_KEY is not set: audit checkpoints could not be signed.",
            hint=f"{MAKE_KEY} and set it for the sweeper only.",
            id="assent.E006",
        )
    if role != SWEEPER and settings.AUDIT_KEY and is_public():
        yield Error(
            "This process has ASSENT_AUDIT_KEY: an attacker in it could sign a forged log.",
            hint="Set it for the sweeper only; other processes get ASSENT_AUDIT_PUBLIC_KEYS.",
            id="assent.E007",
        )


def secrets(role: str) -> Iterator[CheckMessage]:
    of_texts = (_secret_key(), *settings.SECRET_KEY_FALLBACKS) if role in SIGN_TEXTS else ()
    for secret in of_texts:
        if len(secret) < MIN_SECRET or len(set(secret)) < MIN_DISTINCT:
            yield Error(
                "A secret key is missing or short: links, and buttons in Slack, could be forged.",
                hint=f"{MAKE_KEY} and set ASSENT_SECRET_KEY; old ones go into "
                "ASSENT_SECRET_KEY_FALLBACKS.",
                id="assent.E004",
            )
    if not settings.ENCRYPTION_KEYS:
        yield Error(
            "ASSENT_ENCRYPTION_KEYS is not set: webhook secrets and tokens could not be stored.",
            hint=f"{MAKE_KEY}; keep it apart from the database's backups.",
            id="assent.E005",
        )
    if not settings.CHANNELS_KEYS:
        yield Error(
            "ASSENT_CHANNELS_KEY is not set: who can write to Redis could forge our signals.",
            hint=f"{MAKE_KEY} and set it for all processes.",
            id="assent.E017",
        )
    for signer, name, keys, signed in (
        (WEB, "CARD", settings.CARD_KEYS, "agent cards"),
        (COURIER, "PUSH", settings.PUSH_KEYS, "push notifications"),
    ):
        if role == signer and not keys:
            yield Warning(
                f"ASSENT_{name}_KEY is not set: {signed} are sent unsigned.",
                hint=f"{MAKE_KEY}.",
                id="assent.W001",
            )


def _secret_key() -> str:
    """Empty if not set, where Django's setting raises."""
    try:
        return str(settings.SECRET_KEY)
    except ImproperlyConfigured:
        return ""
