"""Ways to sign in beside a password, and the sessions that are open."""

from __future__ import annotations

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import models
from django.db.models.functions import Now

from ledger.foundation.crypto.encryption import SecretField


class LinkPurpose(models.TextChoices):
    INVITE = "invite", "to choose a first password or passkey"
    RECOVER = "recover", "to choose a new one, after two operators reset the account"
    RESET = "reset", "to choose a new password, by e-mail"
    FIRST = "first", "to make the first account of the installation"


class SignInLink(models.Model):
    """A link that works once. Only the hash of its token is kept."""

    # Empty only for the first account, which there is not yet.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    purpose = models.CharField(max_length=10, choices=LinkPurpose)
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="approvals_signinlink_of_somebody_or_first",
                condition=models.Q(purpose="first", user=None)
                | (~models.Q(purpose="first") & models.Q(user__isnull=False)),
            )
        ]

    def __str__(self) -> str:
        return f"{self.purpose} of {self.user}"


class CompanyIdentity(models.Model):
    """An identity at the OpenID Connect provider that signs in as one person."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="company_identities"
    )
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    connected_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "company identities"
        constraints = [
            models.UniqueConstraint(
                fields=["issuer", "subject"], name="approvals_companyidentity_one_person"
            ),
            models.UniqueConstraint(
                fields=["issuer", "user"], name="approvals_companyidentity_one_each"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} is {self.user}"


class AuthenticatorApp(models.Model):
    """The authenticator app of one person. Its codes follow RFC 6238."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    secret = SecretField()
    last_step = models.BigIntegerField(help_text="Time step of the last code that was used.")

    def __str__(self) -> str:
        return f"authenticator app of {self.user}"


class RecoveryCodes(models.Model):
    """The recovery codes of one person that are left. Each counts once."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    codes = SecretField(blank=True, help_text="Separated by spaces.")

    class Meta:
        verbose_name_plural = "recovery codes"

    def __str__(self) -> str:
        return f"recovery codes of {self.user}"


class Passkey(models.Model):
    """A passkey (WebAuthn) of one person."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=60)
    credential = models.BinaryField(help_text="Attested credential data: its id and public key.")
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True)
    sign_count = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Of its authenticator, when it was used last."
    )

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"


class UserSession(models.Model):
    """An open session of one person, and where it was opened. It ends with Django's session."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    session = models.OneToOneField(Session, on_delete=models.CASCADE, related_name="+")
    ip = models.GenericIPAddressField()
    user_agent = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.ip} ({self.user_agent})"
