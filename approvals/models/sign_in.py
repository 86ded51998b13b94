"""How people come in beside a password: one-time links, and identities of the company."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


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
