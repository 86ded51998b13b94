"""Secrets of others are kept encrypted, and the keys can be replaced."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.exceptions import FieldError, ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.transaction import atomic

from a2a.doors.git_bus.models import GitBus
from a2a.models import Mirror, PushConfig, RemoteAgent
from approvals.models import AuthenticatorApp, PushSubscription, RecoveryCodes
from ledger.delivery.webhooks.owners import Owner
from ledger.foundation.crypto import encryption
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.models import Agent, Credential

OLD, NEW = "55" * 32, "66" * 32
pytestmark = pytest.mark.django_db


@pytest.fixture
def with_secret(helpdesk: Agent) -> Agent:
    helpdesk.webhook_secret = "whsec_very-secret"
    helpdesk.save()
    return helpdesk


def stored() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT webhook_secret FROM ledger_agent")
        return str(cursor.fetchone()[0])


def test_the_column_holds_no_clear_text_and_the_same_secret_never_looks_alike(with_secret):
    first = stored()
    with_secret.save()

    assert "secret" not in first
    assert first.startswith("enc:")
    assert stored() != first
    assert Agent.objects.get().webhook_secret == "whsec_very-secret"


def test_every_column_for_secrets_is_one_that_encrypts():
    places = {(field.model, field.name) for field in encryption.secret_fields()}

    assert places == {
        (Agent, "webhook_secret"),
        (Owner, "webhook_secret"),
        (Credential, "secret"),
        (RemoteAgent, "token"),
        (Mirror, "secret"),
        (PushConfig, "token"),
        (PushConfig, "credentials"),
        (GitBus, "deploy_key"),
        (GitBus, "signing_key"),
        (GitBus, "password"),
        (PushSubscription, "endpoint"),
        (PushSubscription, "p256dh"),
        (PushSubscription, "auth"),
        (AuthenticatorApp, "secret"),
        (RecoveryCodes, "codes"),
    }


def test_a_secret_is_not_shown_by_accident(with_secret):
    secret = Agent.objects.get().webhook_secret

    assert "very-secret" not in repr(secret)
    assert "very-secret" not in repr([secret])
    assert "very-secret" not in f"{secret!r}"


def test_secrets_cannot_be_searched(with_secret):
    for lookup in ("startswith", "contains", "regex", "gt", "in"):
        with pytest.raises(FieldError):
            list(Agent.objects.filter(**{f"webhook_secret__{lookup}": "w"}))


def test_rotation_rewrites_with_the_new_key_and_the_old_one_may_go(with_secret, settings):
    settings.ENCRYPTION_KEYS = [OLD]
    with_secret.save()
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    assert Agent.objects.get().webhook_secret == "whsec_very-secret"

    call_command("rotate_secrets", stdout=(said := StringIO()))

    assert "ledger.Agent.webhook_secret: 1 encrypted anew" in said.getvalue()
    settings.ENCRYPTION_KEYS = [NEW]
    assert Agent.objects.get().webhook_secret == "whsec_very-secret"


def test_a_key_that_is_missing_is_named(with_secret, settings):
    settings.ENCRYPTION_KEYS = [OLD]
    with_secret.save()
    settings.ENCRYPTION_KEYS = [NEW]

    with pytest.raises(SecretUnreadable) as refusal:
        Agent.objects.get()
    assert encryption.key_id(OLD) in str(refusal.value)
    assert "ledger_agent.webhook_secret" in str(refusal.value)
    with pytest.raises(CommandError, match="not among"):
        call_command("rotate_secrets")


def test_without_a_key_nothing_is_stored_in_clear(helpdesk, settings):
    settings.ENCRYPTION_KEYS = []
    helpdesk.webhook_secret = "whsec_very-secret"

    with pytest.raises(ImproperlyConfigured, match="Nothing was stored"), atomic():
        helpdesk.save()
    assert stored() == ""


@pytest.mark.parametrize("content", ["whsec_in-clear", "enc:1:2:3", "enc:zz:!!!"])
def test_what_was_written_past_us_is_not_taken_for_a_secret(with_secret, content):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ledger_agent SET webhook_secret = %s", [content])

    with pytest.raises(SecretUnreadable):
        Agent.objects.get()


def test_a_secret_moved_to_another_column_cannot_be_read():
    sealed = encryption.encrypt("token", "a2a_remoteagent.token")

    with pytest.raises(SecretUnreadable, match="copied from another column"):
        encryption.decrypt(sealed, "ledger_agent.webhook_secret")
