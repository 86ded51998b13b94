"""What must be true before a process of the product begins: it starts safely, or not at all.

Every process asks as it starts (``refuse_if_unsafe``): web, live, worker, sweeper, slack. On an
address of this machine alone (`make up`, `make demo`) much is allowed that a deployment must not.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created

logger = logging.getLogger(__name__)

SWEEPER = "sweeper"
NOT_SAFE = 78  # EX_CONFIG
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MIN_SECRET, MIN_DIFFERENT = 50, 5  # characters, as Django's own check wants them
MAKE_KEY = "Make one with `openssl rand -hex 32`"


def is_public() -> bool:
    """Whether people reach the desk from elsewhere."""
    hosts = {urlsplit(url).hostname for url in (settings.PUBLIC_URL, settings.LIVE_URL)}
    return not hosts <= LOCAL_NAMES


def dangers(role: str) -> list[CheckMessage]:
    """Everything for which a process of this role must not start."""
    found = [*_keys(), *_networks(), *_audit_key(role)]
    return [*found, *_addresses(), *_secrets()] if is_public() else found


def refuse_if_unsafe(role: str) -> None:
    """End this process, saying what is wrong, why it matters and how to mend it."""
    found = dangers(role)
    for danger in found:
        if not danger.is_serious():
            logger.warning("%s %s", danger.msg, danger.hint)
    reasons = [f"  - {danger.msg}\n    {danger.hint}" for danger in found if danger.is_serious()]
    if reasons:
        said = f"Assent's {role} does not start, as that would not be safe:\n" + "\n".join(reasons)
        sys.stderr.write(f"{said}\nNothing was changed. docs/operators.md says more.\n")
        sys.exit(NOT_SAFE)
    if is_public():
        _look_at_role(role)


def _look_at_role(process: str) -> None:
    """Now, or with the first connection if there is no database yet."""

    def look(connection: Any, **_: object) -> None:
        connection_created.disconnect(dispatch_uid="ledger.start_checks")
        with connection.cursor() as cursor:
            cursor.execute(_MAY_REWRITE)
            user, may_rewrite = cursor.fetchone()
        if may_rewrite:
            sys.stderr.write(
                f"Assent's {process} does not start, as that would not be safe:\n  - The database "
                f"role {user} may change what is in the audit log.\n    Let the owner's role "
                "migrate (ASSENT_OWNER_DATABASE_URL) and name another one in DATABASE_URL.\n"
                "Nothing was changed. docs/operators.md says more.\n"
            )
            os._exit(NOT_SAFE)  # from whichever thread connected first

    connection_created.connect(look, dispatch_uid="ledger.start_checks", weak=False)
    try:
        connection.ensure_connection()
    except OperationalError:
        logger.warning("no database yet: what its role may do is looked at later")
    finally:
        connection.close()


_MAY_REWRITE = """
    SELECT current_user, rolsuper
        OR coalesce(has_table_privilege(to_regclass('ledger_event'), 'UPDATE'), false)
    FROM pg_roles WHERE rolname = current_user
"""


@register(Tags.security, deploy=True)
def check_deployment(**_: object) -> list[CheckMessage]:
    """The same for `manage.py check --deploy`, which does not know for which process it asks."""
    return [*_keys(), *_networks(), *_addresses(), *_secrets()]


def _addresses() -> Iterator[CheckMessage]:
    if settings.DEBUG:
        yield Error(
            "ASSENT_DEBUG is on at a public address: error pages show settings and data.",
            hint="Set ASSENT_DEBUG=0.",
            id="assent.E001",
        )
    for name, url in (("PUBLIC", settings.PUBLIC_URL), ("LIVE", settings.LIVE_URL)):
        if not url.startswith("https://"):
            yield Error(
                f"ASSENT_{name}_URL is {url}: sessions and tokens would travel in clear.",
                hint="Serve it over https (compose.yaml does) and say so in the address.",
                id="assent.E002",
            )
    if "*" in settings.ALLOWED_HOSTS:
        yield Error(
            "ASSENT_ALLOWED_HOSTS is *: whoever chooses the Host header chooses our addresses.",
            hint="Name the hosts, by commas.",
            id="assent.E003",
        )


def _secrets() -> Iterator[CheckMessage]:
    for secret in (_secret_key(), *settings.SECRET_KEY_FALLBACKS):
        is_weak = len(secret) < MIN_SECRET or len(set(secret)) < MIN_DIFFERENT
        if is_weak or secret.startswith("insecure"):
            yield Error(
                "A secret key is missing, short or the one for development: sessions, buttons in "
                "Slack and jobs could be forged.",
                hint=f"{MAKE_KEY} and set ASSENT_SECRET_KEY; old ones go into "
                "ASSENT_SECRET_KEY_FALLBACKS.",
                id="assent.E004",
            )
    if not settings.ENCRYPTION_KEYS:
        yield Error(
            "ASSENT_ENCRYPTION_KEYS is not set: webhook secrets and tokens could not be kept.",
            hint=f"{MAKE_KEY}; keep it as safe as the database's backups are not.",
            id="assent.E005",
        )
    for name, keys in (("CARD", settings.CARD_KEYS), ("PUSH", settings.PUSH_KEYS)):
        if not keys:
            yield Warning(
                f"ASSENT_{name}_KEY is not set: what it would sign goes out unsigned.",
                hint=f"{MAKE_KEY}.",
                id="assent.W001",
            )


def _secret_key() -> str:
    """Django itself refuses to hand out an empty one."""
    try:
        return str(settings.SECRET_KEY)
    except ImproperlyConfigured:
        return ""


def _audit_key(role: str) -> Iterator[CheckMessage]:
    if role == SWEEPER and not settings.AUDIT_KEY:
        yield Error(
            "ASSENT_AUDIT_KEY is not set: nobody would sign the audit checkpoints.",
            hint=f"{MAKE_KEY} and give it to the sweeper alone.",
            id="assent.E006",
        )
    if role != SWEEPER and settings.AUDIT_KEY and is_public():
        yield Error(
            "This process holds ASSENT_AUDIT_KEY: whoever breaks into it could sign a forged log.",
            hint="Give it to the sweeper alone; others get ASSENT_AUDIT_PUBLIC_KEYS.",
            id="assent.E007",
        )


def _keys() -> Iterator[CheckMessage]:
    signing = {
        "ASSENT_AUDIT_KEY": [settings.AUDIT_KEY] if settings.AUDIT_KEY else [],
        "ASSENT_CARD_KEY": settings.CARD_KEYS,
        "ASSENT_PUSH_KEY": settings.PUSH_KEYS,
    }
    for name, keys in {**signing, "ASSENT_ENCRYPTION_KEYS": settings.ENCRYPTION_KEYS}.items():
        if not all(_is_key(key) for key in keys):
            yield Error(
                f"{name} cannot be read: a key is 32 bytes in hexadecimal, 64 digits.",
                hint=f"{MAKE_KEY}.",
                id="assent.E008",
            )
    every = [key.lower() for keys in signing.values() for key in set(keys)]
    if len(every) != len(set(every)):
        yield Error(
            "One key signs two kinds of things (audit log, agent card, push notifications).",
            hint="Make one for each: who steals one must not have the others.",
            id="assent.E009",
        )


def _is_key(text: str) -> bool:
    try:
        Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text))
    except ValueError:
        return False
    return True


def _networks() -> Iterator[CheckMessage]:
    if not all(port.isdecimal() for port in settings.WEBHOOK_PORTS):
        yield Error(
            f"ASSENT_WEBHOOK_PORTS has what is no port: {', '.join(settings.WEBHOOK_PORTS)}.",
            hint="Numbers, by commas.",
            id="assent.E011",
        )
    for network in settings.WEBHOOK_NETWORKS:
        try:
            ipaddress.ip_network(network)
        except ValueError as failure:
            yield Error(
                f"ASSENT_WEBHOOK_NETWORKS has {network!r}, which is no network: {failure}.",
                hint="Write it like 10.1.0.0/16 or fd00:1::/48, several by commas.",
                id="assent.E010",
            )
