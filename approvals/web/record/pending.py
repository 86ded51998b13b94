"""Changes that wait for a second operator, of every kind, as that operator has to see them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from approvals.http.middleware import roles_of
from approvals.models import Role
from approvals.people import ACCOUNT_KINDS, account_requests_of
from ledger.models import ChangeRequest


@dataclass(frozen=True, slots=True)
class Difference:
    """One member that differs; ``loosens`` if it takes a second operator.

    ``is_sentence`` if people read it as a sentence: its member is no name from a file.
    """

    member: str
    before: str
    after: str
    loosens: bool = False
    is_sentence: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """A change in words, what differs, and the whole text as it would be."""

    sentence: SafeString
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    text: str = ""
    is_overtaken: bool = False


_views: dict[str, Callable[[ChangeRequest], Pending]] = {}


def show(kind: str, view: Callable[[ChangeRequest], Pending]) -> None:
    """Add a kind of change. Called in ``AppConfig.ready()``."""
    _views[kind] = view


def pending(request: ChangeRequest) -> Pending:
    return _views[request.kind](request)


def sentence_of(request: ChangeRequest) -> SafeString:
    return pending(request).sentence


def asks_to_change(request: ChangeRequest, what: str) -> SafeString:
    return format_html(
        _("{asker} asks to change {what}."), asker=strong(request.asked_by_name), what=strong(what)
    )


def requests_of(operator: User) -> QuerySet[ChangeRequest]:
    """The changes that this operator may see, of every kind and in every state."""
    tenants = [slug for slug, roles in roles_of(operator).items() if Role.OPERATOR in roles]
    of_accounts = account_requests_of(operator).values("pk")
    others = Q(tenant__in=tenants, kind__in=_views.keys() - set(ACCOUNT_KINDS))
    return ChangeRequest.objects.filter(Q(pk__in=of_accounts) | others)


def strong(name: str) -> SafeString:
    return format_html("<strong><bdi>{}</bdi></strong>", name)


def shown_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
