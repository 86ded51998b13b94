"""News of signatures given in advance: broken glass, asked for and made, and grants that ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.desk import SIGNERS, signed_by, uses_of
from approvals.models import Membership, Role
from approvals.notifications.texts import Words, shortened
from approvals.presentation import grant_in_words, to_the_minute
from ledger.events import ChangeKind
from ledger.models import Decision, Event, Grant
from ledger.principals import Principal
from ledger.sign_off import grants

KINDS = frozenset({ChangeKind.BREAK_GLASS_ASKED, ChangeKind.GRANT_GIVEN, ChangeKind.GRANT_ENDED})
MOST_USES = 20


@dataclass(frozen=True, slots=True)
class News:
    """The news of one event, with the first approvals that it tells of."""

    words: Words
    address: str
    tag: str
    uses: Sequence[Decision] = ()
    number: int = 0


def grant_of(event: Event) -> Grant | None:
    """The grant that the event is about; ``None`` where it is only asked for."""
    kind, _colon, key = str(json.loads(event.details)["subject"]).partition(":")
    return Grant.objects.get(pk=key) if kind == grants.KIND else None


def readers_of(event: Event) -> QuerySet[User]:
    """Whoever has to know: of broken glass everybody who decides or operates, else its giver."""
    grant = grant_of(event)
    roles = SIGNERS if grant else {Role.OPERATOR}
    of_tenant = Membership.objects.filter(tenant=event.tenant, role__in=roles)
    people = User.objects.filter(memberships__in=of_tenant, is_active=True).distinct()
    if grant is None:
        return people.exclude(pk=Principal.parse(event.principal).id)
    if grant.is_break_glass:
        return people
    is_news = event.kind == ChangeKind.GRANT_ENDED and event.principal != grant.given_by
    return people.filter(pk=Principal.parse(grant.given_by).id) if is_news else people.none()


def news_of(event: Event, *, hides_details: bool) -> News:
    """In the active language."""
    grant = grant_of(event)
    if grant is None:
        title = _("{name} asks to break the glass").format(name=event.principal_name)
        words = Words(title, _("It waits for a second operator."))
        return News(words, reverse("desk:inbox"), "break-glass")
    address = f"{reverse('desk:standing')}?grant={grant.pk}"
    body = "" if hides_details else shortened(_body(grant))
    news = News(Words(_title(event, grant), body), address, f"grant-{grant.pk}")
    if event.kind == ChangeKind.GRANT_GIVEN or hides_details:
        return news
    uses = uses_of([grant])
    return News(news.words, address, news.tag, list(uses[:MOST_USES]), uses.count())


def _title(event: Event, grant: Grant) -> str:
    if event.kind == ChangeKind.GRANT_GIVEN:
        return _("Glass broken by {first} and {second} until {time}").format(
            first=grant.given_by_name,
            second=grant.confirmed_by_name,
            time=to_the_minute(grant.ends_at),
        )
    title = _("Your grant ended: it signed {what}")
    if grant.is_break_glass:
        title = _("The glass is closed again: {what} passed")
    return title.format(what=signed_by([grant])[grant.pk].words)


def _body(grant: Grant) -> str:
    sentence = grant_in_words(grant)
    return f"{sentence}. {grant.why}" if grant.why else sentence
