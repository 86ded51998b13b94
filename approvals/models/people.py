"""People of the desk: user names, roles, requested changes of rights, and notices."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from ledger.models import Event, Tenant


class Role(models.TextChoices):
    VIEWER = "viewer", "viewer: sees everything, decides nothing"
    APPROVER = "approver", "approver: approves and rejects"
    OPERATOR = "operator", "operator: keeps the ledger, settles what is in doubt"


class UserName(models.Model):
    """A user name that somebody has or had. Nobody else ever gets it.

    A database trigger inserts it (``approvals/sql/user_name.sql``) when a user is created or
    renamed. ``user_id`` is not a foreign key: a name stays taken when the account is gone.
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


class Notice(models.Model):
    """A change of a person's account, shown to them on the desk until they dismiss it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices"
    )
    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="+")
    dismissed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # Every page of the desk reads the open notices of its user.
            models.Index(
                name="approvals_notice_open",
                fields=["user", "-id"],
                condition=models.Q(dismissed_at=None),
            )
        ]

    def __str__(self) -> str:
        return f"{self.event.kind} to {self.user}"
