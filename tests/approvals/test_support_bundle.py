"""A support bundle says how an installation is, and gives away nothing and nobody of it."""

from __future__ import annotations

import json
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone
from redis import ConnectionPool

from approvals import processes
from ledger.foundation import doorbell, liveness
from ledger.models import Agent, LimitRefusal, Tenant
from ledger.transactions import coordinator

pytestmark = pytest.mark.django_db

CANARY = "Kanarienvogel"


def parts(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as file:
        return {name.removesuffix(".json"): json.loads(file.read(name)) for name in file.namelist()}


def bundle(tmp_path: Path, *options: str) -> dict[str, Any]:
    call_command("support_bundle", str(tmp_path / "out.zip"), *options)
    return parts(tmp_path / "out.zip")


def test_it_says_what_somebody_who_helps_asks_first(tmp_path, a_payment):
    a_payment()

    made = bundle(tmp_path)

    assert made["versions"]["assent"] == django_settings.VERSION
    assert {"name": "AssentSweeperMissing", "ok": False} in made["findings"]
    assert made["counts"]["transactions"] == {"prepared": 1}
    assert "ledger.0001_tables" in made["migrations"]["applied"]
    assert made["migrations"]["left"] == []
    assert made["settings"]["DATABASE_POOL"] == django_settings.DATABASE_POOL
    assert made["metrics"]["assent_transactions"] == [{"state": "prepared", "value": 1.0}]
    assert made["database"]["max_connections"].isdecimal()
    assert (tmp_path / "out.zip").stat().st_mode & 0o777 == 0o600


def test_without_redis_there_is_still_the_rest(tmp_path, settings):
    settings.REDIS_POOL = ConnectionPool.from_url("redis://127.0.0.1:1/0")
    doorbell.redis.cache_clear()
    try:
        made = bundle(tmp_path)
    finally:
        doorbell.redis.cache_clear()

    assert {"name": "redis.away", "ok": False} in made["findings"]
    assert made["processes"] is None


SECRET_TEXTS = (
    *("SECRET_KEY", "METRICS_TOKEN", "OIDC_CLIENT_SECRET", "AUDIT_KEY", "VAPID_KEY"),
    *("EMAIL_URL", "EMAIL_HOST_USER", "EMAIL_HOST_PASSWORD", "SIEM_TOKEN", "SIEM_URL"),
    *("DATABASE_URL", "OWNER_DATABASE_URL", "LOG_DATABASE_URL", "PUBLIC_URL", "LOG_ORIGIN"),
    *("SLACK_TRANSPORT", "SIEM_FORM", "DATABASE_POOLING"),  # somebody pasted into the wrong line
)
SECRET_LISTS = (
    *("SECRET_KEY_FALLBACKS", "CHANNELS_KEYS", "ENCRYPTION_KEYS", "CARD_KEYS", "PUSH_KEYS"),
    *("TOOL_KEYS", "PERMIT_KEYS", "SLACK_BOT_TOKENS", "SLACK_SIGNING_SECRETS"),
    *("SLACK_APP_TOKENS", "WITNESSES", "OIDC_ROLES"),
)


@pytest.fixture
def canaries(monkeypatch, settings, helpdesk, a_payment, alice, alice_user):
    """One in every secret, in the names of everybody, and in whatever people and agents write."""
    row = a_payment(reference=f"order-{CANARY}")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason=CANARY)
    User.objects.filter(pk=alice_user.pk).update(username=CANARY, first_name=CANARY)
    Tenant.objects.filter(pk="acme").update(name=CANARY)
    Agent.objects.filter(pk=helpdesk.pk).update(name=CANARY)
    Tenant.objects.create(slug=CANARY.lower(), name=CANARY)
    LimitRefusal.objects.create(
        limit=CANARY, of="agent", tenant=CANARY.lower(), number=1, minute=_now()
    )
    liveness.sign([f"{CANARY}:4711", "web:4712"])
    for name in processes.SECRETS | {"ASSENT_SIEM_URL", "ASSENT_OIDC_ISSUER", "DATABASE_URL"}:
        monkeypatch.setenv(name, f"{name} {CANARY}")
    for name in SECRET_TEXTS:
        setattr(settings, name, f"{name} {CANARY}")
    for name in SECRET_LISTS:
        setattr(settings, name, [f"{name} {CANARY}"])


def _now() -> datetime:
    return timezone.now()


def test_no_secret_name_or_content_is_in_it(tmp_path, canaries):
    log = tmp_path / "log"
    trace = (
        f'Traceback (most recent call last):\n  File "/srv/{CANARY}/ledger/apps.py", line 7, in x\n'
        f"    f('{CANARY}')\nledger.errors.NotFound: {CANARY}\n{CANARY}Error: again"
    )
    told = {"time": CANARY, "level": "ERROR", "logger": CANARY, "message": CANARY}
    lines = [{**told, "error": trace, "principal": CANARY, "tenant": CANARY}, told]
    log.write_text("\n".join([*map(json.dumps, lines), CANARY, '{"level": ["x"]}']))

    made = bundle(tmp_path, "--log", str(log))

    assert CANARY.lower() not in json.dumps(made).lower()
    assert made["processes"]["web"] == 1
    names = made["settings"]["are_set"]
    assert {"ASSENT_AUDIT_KEY", "ASSENT_SIEM_TOKEN"} <= set(names)
    assert made["errors"] == [
        {
            "level": "ERROR",
            "time": None,
            "logger": None,
            "raised": "NotFound",
            "through": ["ledger/apps.py:7"],
        },
        {"level": "ERROR", "time": None, "logger": None, "raised": None, "through": []},
    ]


def test_names_of_tenants_agents_and_tools_are_numbers(tmp_path, a_payment):
    a_payment()
    LimitRefusal.objects.create(limit="pending", of="agent", tenant="acme", number=3, minute=_now())

    made = bundle(tmp_path)

    assert made["metrics"]["assent_limit_refusals_recent"] == [
        {"limit": "pending", "of": "agent", "tenant": 1, "value": 3.0}
    ]
    assert "acme" not in json.dumps(made)
