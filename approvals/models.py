"""Who may do what at the desk."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from approvals.slack.models import (
    SlackClick,
    SlackIdentity,
    SlackLinkRequest,
    SlackMessage,
    SlackRoute,
    SlackWorkspace,
)
from ledger.models import Tenant

__all__ = [
    "Membership", "Role", "SlackClick", "SlackIdentity", "SlackLinkRequest", "SlackMessage",
    "SlackRoute", "SlackWorkspace", "UserName",
]  # fmt: skip


class Role(models.TextChoices):
    VIEWER = "viewer", "viewer: sees everything, decides nothing"
    APPROVER = "approver", "approver: approves and rejects"
    OPERATOR = "operator", "operator: keeps the ledger, settles what is in doubt"


class UserName(models.Model):
    """A user name that somebody has, or once had. It is never given to anybody else.

    The database enters it (``approvals/sql/user_names.sql``), whoever makes or renames a user. The
    key of the user is no foreign key: a name stays taken when the account is gone.
    """

    name = models.CharField(max_length=150, primary_key=True, help_text="In small letters.")
    user_id = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One role of one person in one tenant. A person may have several."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "tenant", "role"], name="approvals_membership_once_per_role"
            ),
            models.CheckConstraint(
                name="approvals_membership_role_exists",
                condition=models.Q(role__in=Role.values),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.tenant}"
