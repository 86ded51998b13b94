"""The tenants and people that the operator of a request keeps, and who acts in which way."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _

from approvals.models import Membership, Role
from approvals.people import principal_of
from approvals.web.requests import roles_of_request
from approvals.web.sign_in.authentication import person_of
from ledger.models import Tenant
from ledger.principals import Surface

TRIES = "tries-"  # the slugs of the agents by which people try tools begin so


def kept_tenants(request: HttpRequest) -> QuerySet[Tenant]:
    """Refuses whoever is no operator of any tenant."""
    kept = [slug for slug, roles in roles_of_request(request).items() if Role.OPERATOR in roles]
    if not kept:
        raise PermissionDenied(_("Settings are for operators to keep."))
    return Tenant.objects.filter(slug__in=kept).order_by("name")


def people_in(tenants: Any) -> QuerySet[User]:
    """Whoever has a role in one of these tenants."""
    rows = User.objects.filter(pk__in=Membership.objects.filter(tenant__in=tenants).values("user"))
    return rows.order_by("-is_active", "first_name", "username")


def kept_people(tenants: Any) -> QuerySet[User]:
    """Those whose account the operators of these tenants keep: who belong to no other tenant."""
    elsewhere = Membership.objects.exclude(tenant__in=tenants).values("user")
    return people_in(tenants).filter(is_superuser=False).exclude(pk__in=elsewhere)


def kept_person(request: HttpRequest, person_id: int) -> User:
    """A person whose account these operators keep. Raises ``Http404`` for others."""
    return get_object_or_404(kept_people(kept_tenants(request)), pk=person_id)


def choose_tenant(form: Any, tenants: Any) -> None:
    """Let the form choose among these tenants; of one only, it is not asked."""
    field = form.fields["tenant"]
    field.queryset = tenants
    if len(tenants) == 1:
        field.initial, field.widget = tenants[0].pk, forms.HiddenInput()


def names_after(form: Any, field: str, present: list[str]) -> list[str]:
    """The present names with those that this person added, and without those they took away.

    The form shows its field's hidden initial value, so what a colleague changed meanwhile stays.
    """
    seen = set(" ".join(form.data.getlist(form.add_initial_prefix(field))).split())
    chosen = form.cleaned_data[field]
    kept = [name for name in present if name not in seen or name in chosen]
    return list(dict.fromkeys([*kept, *(name for name in chosen if name not in seen)]))


def origin_of(request: HttpRequest) -> dict[str, Any]:
    """The acting person and the surface, as keyword arguments."""
    return {"by": principal_of(person_of(request)), "via": Surface.WEB}
