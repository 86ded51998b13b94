"""Kinds of change that the audit log seals of clients and connections."""

from __future__ import annotations

from django.db.models import TextChoices

from ledger.errors import Sentence


class SignInChange(TextChoices):
    AGENT_CONNECTED = "agent_connected", Sentence("connected a program as an agent")
    AGENT_DISCONNECTED = "agent_disconnected", Sentence("disconnected a program from an agent")
    CLIENT_ADDED = "client_added", Sentence("registered a program that people sign in with")
    CLIENT_CHANGED = "client_changed", Sentence("changed a program that people sign in with")


class IssuerChange(TextChoices):
    """Changes of whom we trust to say which agent a program is."""

    TRUSTED = "issuer_trusted", Sentence("trusted an issuer of agents' tokens")
    SWITCHED_OFF = "issuer_switched_off", Sentence("no longer trusted an issuer of agents' tokens")
    ASKED = "issuer_asked", Sentence("asked to trust an issuer of agents' tokens")
    DECLINED = "issuer_declined", Sentence("declined to trust an issuer of agents' tokens")
