"""The tables of the toolkit, as ours: clients, codes and tokens; and what people connected."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Concat, Now
from oauth2_provider.models import (
    AbstractAccessToken,
    AbstractApplication,
    AbstractGrant,
    AbstractRefreshToken,
)

from approvals.oauth.issuer_tables import Issuer, IssuerRule, UsedAssertion  # noqa: F401
from ledger.models import Agent, AgentToken

# Schemes that a browser would run or open as a file, instead of passing them to a program.
DANGEROUS = frozenset({"javascript", "data", "vbscript", "file", "blob", "about", "view-source"})

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Client(AbstractApplication):
    """A program that asks for tokens: it registered itself, is known by its document, or by us."""

    agent = models.ForeignKey(
        Agent,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="For client credentials: the agent that it is. Nobody signs in then.",
    )
    is_active = models.BooleanField(
        default=True, db_default=True, help_text="Off: what it was given ends, and it gets no more."
    )

    class Meta(AbstractApplication.Meta):
        constraints = [
            models.CheckConstraint(
                name="oauth_client_is_an_agent_or_has_people_sign_in",
                condition=Q(
                    agent=None,
                    authorization_grant_type=AbstractApplication.GRANT_AUTHORIZATION_CODE,
                )
                | Q(
                    agent__isnull=False,
                    authorization_grant_type=AbstractApplication.GRANT_CLIENT_CREDENTIALS,
                    client_type=AbstractApplication.CLIENT_CONFIDENTIAL,
                ),
            )
        ]

    def clean(self) -> None:
        """Refuse addresses to which a code would travel in the clear, but for this computer's.

        And those that can look like another: a host in other letters is written as xn--….
        """
        super().clean()
        if not (self.client_id + self.redirect_uris).isascii():
            raise ValidationError("Addresses have ASCII letters only.")
        for uri in self.redirect_uris.split():
            target = urlsplit(uri)
            if target.scheme == "http" and target.hostname not in LOOPBACK:
                raise ValidationError({"redirect_uris": f"{uri} is not of https."})

    def is_usable(self, request: object) -> bool:
        return self.is_active and (self.agent is None or self.agent.is_active)

    def get_allowed_schemes(self) -> list[str]:
        """A program that operators registered may have a scheme of its own (RFC 8252, 7.1)."""
        allowed: list[str] = super().get_allowed_schemes()
        if self.registration_source != self.RegistrationSource.MANUAL:
            return allowed
        own = {urlsplit(uri).scheme for uri in self.redirect_uris.split()}
        return [*allowed, *sorted(own - DANGEROUS - {""})]

    @property
    def host(self) -> str:
        """The host that vouches for it; empty: nobody does but its operators, or it itself."""
        is_by_document = self.registration_source == self.RegistrationSource.CIMD
        return (urlsplit(self.client_id).hostname or "") if is_by_document else ""


class ConnectionQuerySet(models.QuerySet["Connection"]):
    def standing(self) -> ConnectionQuerySet:
        """Those that give tokens: not ended, and of people, agents and clients that are active."""
        keeper = Concat(Value("user:"), "person_id", output_field=models.CharField())
        return self.filter(
            ended_at=None,
            person__is_active=True,
            person__memberships__tenant_id=F("agent__tenant_id"),
            agent__is_active=True,
            agent__kept_by=keeper,
            client__is_active=True,
        ).distinct()


class Connection(models.Model):
    """A program acts as an agent, because the person who keeps it signed in for that."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    client = models.ForeignKey(Client, on_delete=models.PROTECT, related_name="connections")
    scopes = ArrayField(models.CharField(max_length=120))
    redirect_to = models.CharField(max_length=300, help_text="Where its person was sent back to.")
    connected_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    objects = ConnectionQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["person", "-connected_at"], name="oauth_connection_person")]

    def __str__(self) -> str:
        return f"{self.client} as {self.agent}"


class _OfConnection(models.Model):
    """A code or a token; without a connection where a client is an agent by itself."""

    connection = models.ForeignKey(
        Connection, on_delete=models.CASCADE, null=True, related_name="%(class)ss"
    )

    class Meta:
        abstract = True

    def __str__(self) -> str:
        """Never the secret itself: this stands in logs and in the admin."""
        return f"{type(self).__name__} {self.pk}"


class Code(_OfConnection, AbstractGrant):
    """An authorization code, for the minute until it is exchanged."""

    class Meta(AbstractGrant.Meta):
        pass


class RefreshToken(_OfConnection, AbstractRefreshToken):
    """Exchanged once; a second time ends its connection."""

    class Meta(AbstractRefreshToken.Meta):
        pass


class AccessToken(_OfConnection, AbstractAccessToken):
    """The toolkit's side of a token. ``agent_token`` is what lets the agent in: one goes with the
    other."""

    agent_token = models.OneToOneField(
        AgentToken, on_delete=models.CASCADE, null=True, related_name="+"
    )

    class Meta(AbstractAccessToken.Meta):
        pass


def forget_agent_token(instance: AccessToken, **_: Any) -> None:
    """Called once an access token is deleted."""
    if instance.agent_token_id is not None:
        AgentToken.objects.filter(pk=instance.agent_token_id).delete()
