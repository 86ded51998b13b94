"""Base of the operators' pages for tools: whose rows, pages of a row, changes that wait."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.html import format_html_join
from django.utils.translation import gettext as _

from approvals.http.middleware import DeskRequest
from approvals.models import Role
from approvals.people import principal_of
from approvals.presentation import refusal_and_hint
from ledger import four_eyes
from ledger.admin.base import TenantAdmin
from ledger.admin.sealed_changes import VIA
from ledger.errors import LedgerError, NotFound
from ledger.models import Agent, ChangeRequest, Tenant
from ledger.tools import registrations
from ledger.tools.manifests import Manifest
from ledger.tools.registrations import Refused

OPERATE_TOOLS = "ledger.change_registeredtool"


def operated_by(request: HttpRequest) -> set[str]:
    """The tenants whose tools this person may change."""
    person = getattr(request, "user", None)
    if not isinstance(person, User) or not person.has_perm(OPERATE_TOOLS):
        return set()
    return {
        slug for slug, roles in cast(DeskRequest, request).roles.items() if Role.OPERATOR in roles
    }


def origin_of(request: HttpRequest) -> dict[str, Any]:
    """The acting person and the surface, as keyword arguments."""
    assert isinstance(request.user, User)
    return {"by": principal_of(request.user), "via": VIA}


class OperatorPages(TenantAdmin):
    """Rows that operators of their tenant change, each change confirmed as it was shown."""

    def choices_of(self, related: Any, request: HttpRequest) -> QuerySet[Any] | None:
        """Tenants whose tools the person may change, and their agents."""
        if related is Tenant:
            return Tenant.objects.filter(slug__in=operated_by(request))
        if related is Agent:
            return Agent.objects.filter(tenant__in=operated_by(request))
        return super().choices_of(related, request)

    def page(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        every = self.admin_site.each_context(request)
        return render(request, template, {**every, "opts": self.opts, **context})

    def operated(self, request: HttpRequest, pk: int) -> Any:
        """The row, if the person may change it."""
        rows = self.get_queryset(request).select_related(self.tenant_path)
        row = get_object_or_404(rows, pk=pk)
        if not rows.filter(pk=pk, **{f"{self.tenant_path}__in": operated_by(request)}).exists():
            raise PermissionDenied
        return row

    def change_tool(
        self, request: HttpRequest, tenant: Tenant, manifest: Manifest, in_place_of: str, done: str
    ) -> ChangeRequest | None:
        """Register it and say so, or return the change that waits. Raises ``Refused``."""
        origin = {"in_place_of": in_place_of, **origin_of(request)}
        change = registrations.change(tenant, manifest, **origin)
        if change is None:
            self.message_user(request, done.format(name=manifest.name), messages.SUCCESS)
        else:
            self.say_it_waits(request, manifest.name)
        return change

    def say_it_waits(self, request: HttpRequest, name: str) -> None:
        text = _("{name} changes when another operator has confirmed it.")
        self.message_user(request, text.format(name=name), messages.WARNING)

    def waiting(
        self, request: HttpRequest, template: str, change: ChangeRequest | None, **context: Any
    ) -> HttpResponse:
        """The page of a change that waits: exactly what it does; confirming or declining it."""
        if request.method == "POST":
            self._settle(request, change)
            return redirect(request.path)
        if change is not None:
            context["is_own"] = change.asked_by == str(origin_of(request)["by"])
            context["is_open"] = four_eyes.waiting(change.kind).filter(pk=change.pk).exists()
        return self.page(request, template, change=change, **context)

    def _settle(self, request: HttpRequest, change: ChangeRequest | None) -> None:
        try:
            if change is None:
                raise NotFound(four_eyes.NO_SUCH_CHANGE)
            if "confirm" in request.POST:
                four_eyes.confirm(change, seen=request.POST["confirm"], **origin_of(request))
                self.message_user(request, _("It is confirmed."), messages.SUCCESS)
            else:
                four_eyes.decline(change, **origin_of(request))
                self.message_user(request, _("It is declined."), messages.SUCCESS)
        except LedgerError as refusal:
            self.message_user(request, refusal_and_hint(refusal), messages.ERROR)
        except Refused as refusal:
            lines = format_html_join("", "{} ", ((line,) for line in str(refusal).splitlines()))
            self.message_user(request, lines, messages.ERROR)


class OwnRowPages(OperatorPages):
    """Rows with a page of their own in the place of Django's form."""

    def row_page(self, request: HttpRequest, row: Any) -> HttpResponse:
        raise NotImplementedError

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        if row is None or not self.has_view_permission(request, row):
            return super().change_view(request, object_id, form_url, extra_context)
        return self.row_page(request, row)
