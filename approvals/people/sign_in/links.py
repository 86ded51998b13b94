"""One-time links with which people come in: invitations, recoveries, resets, the first account."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from approvals.models import LinkPurpose, SignInLink
from ledger.errors import NotPossible

VALID = {
    LinkPurpose.INVITE: timedelta(days=3),
    LinkPurpose.RECOVER: timedelta(days=3),
    LinkPurpose.RESET: timedelta(hours=1),
    LinkPurpose.FIRST: timedelta(days=3),
}


def new_link(purpose: LinkPurpose, person: User | None) -> str:
    """The address of a new link. Earlier links of the same person end."""
    end_links(person)
    token = secrets.token_urlsafe(32)
    SignInLink.objects.create(
        user=person,
        purpose=purpose,
        token_hash=hash_of(token),
        expires_at=Now() + VALID[purpose],
    )
    path = "first" if purpose == LinkPurpose.FIRST else "join"
    return f"{settings.PUBLIC_URL.rstrip('/')}/{path}/{token}/"


def end_links(person: User | None, *purposes: LinkPurpose) -> None:
    """End the person's open links, of these purposes or all. Nobody's are to the first account."""
    rows = SignInLink.objects.filter(user=person, used_at=None)
    rows.filter(purpose__in=purposes or LinkPurpose.values).update(used_at=Now())


def first_start_link() -> str:
    """The address where the first account is made; empty once there is an account."""
    return "" if User.objects.exists() else new_link(LinkPurpose.FIRST, None)


def find_link(token: str, *purposes: LinkPurpose) -> SignInLink:
    """The open link with this token. Raises ``NotPossible``, which says what to do next."""
    row = (
        SignInLink.objects.select_related("user")
        .filter(token_hash=hash_of(token), purpose__in=purposes)
        .first()
    )
    if row is None:
        raise NotPossible(_("This link does not exist. Copy all of it, or ask for a new one."))
    if row.used_at is not None:
        raise NotPossible(_("This link was used already, or a newer one has replaced it."))
    if row.user is not None and not row.user.is_active:
        raise NotPossible(_("This account is closed. An operator can open it again."))
    if not SignInLink.objects.filter(pk=row.pk, expires_at__gt=Now()).exists():
        raise NotPossible(_("The time of this link is over. Ask for a new one."))
    return row


def use_link(link: SignInLink) -> None:
    """Use the link up, in the database transaction of what it is for. Raises ``NotPossible``."""
    still_open = SignInLink.objects.filter(pk=link.pk, used_at=None, expires_at__gt=Now())
    if not still_open.update(used_at=Now()):
        raise NotPossible(_("This link was used already, or a newer one has replaced it."))


def hash_of(token: str) -> str:
    return hashlib.sha256(b"assent.sign-in-link:" + token.encode()).hexdigest()
