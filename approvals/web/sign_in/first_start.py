"""The first start without anybody: the first account, the tools, a token, the first request."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import Permission, User
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from approvals.http.middleware import roles_of
from approvals.models import LinkPurpose, Role, SignInLink
from approvals.people import accounts, dismiss_all_notices, principal_of
from approvals.people.sign_in import find_link, use_link
from approvals.presentation import refusal_in_words
from approvals.web.sign_in import authentication, qr_code
from approvals.web.sign_in.authentication import person_of
from approvals.web.sign_in.sign_in import TooBusy, hashing_turn
from ledger import contracts
from ledger.agents import enrolment
from ledger.errors import NotPossible
from ledger.models import Agent, AgentToken, Scope, Tenant, Transaction
from ledger.principals import Surface, system

BY_LINK = system("first_start", "The link of the first start")
LOCK = 7_301_842_551  # of PostgreSQL: two tabs must not make two first accounts
TOKEN = "first_token"  # in the session, until its page is left


class FirstAccountForm(BaseUserCreationForm):
    organisation = forms.SlugField(
        label=gettext_lazy("Short name of your organisation"),
        max_length=40,
        help_text=gettext_lazy("Small letters and digits, as acme. It stands in addresses."),
    )

    class Meta(BaseUserCreationForm.Meta):
        fields = ("username", "first_name", "last_name", "email")

    def clean_organisation(self) -> str:
        return str(self.cleaned_data["organisation"]).lower().replace("_", "-")


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def first_account(request: HttpRequest, token: str) -> HttpResponse:
    """Make the first account: an operator and manager, who may make everybody else."""
    try:
        link = find_link(token, LinkPurpose.FIRST)
    except NotPossible as refusal:
        return render(
            request, "first/account.html", {"problem": refusal_in_words(refusal)}, status=410
        )
    form = FirstAccountForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            with hashing_turn():
                person = _make(link, form)
        except (NotPossible, TooBusy) as refusal:
            return render(request, "first/account.html", {"problem": str(refusal)}, status=409)
        authentication.enter(request, person)
        return redirect("desk:first-tools")
    context = {"form": form, "step": 1}
    return render(request, "first/account.html", context, status=422 if form.errors else 200)


def _make(link: SignInLink, form: FirstAccountForm) -> User:
    origin: dict[str, Any] = {"by": BY_LINK, "via": Surface.WEB}
    with atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        if User.objects.exists():
            raise NotPossible(_("There is an account already. Sign in, or ask its operator."))
        use_link(link)
        person: User = form.save()
        accounts.opened(person, **origin)
        tenant = enrolment.tenant_named(form.cleaned_data["organisation"], **origin)
        for role in (Role.OPERATOR, Role.APPROVER):
            accounts.give_role(person, tenant.slug, role, **origin)
        accounts.set_flag(person, "is_staff", True, **origin)
        labels = ["ledger", "a2a", "approvals", "git_bus", "humanlayer"]
        rights = Permission.objects.filter(content_type__app_label__in=labels)
        accounts.set_permissions(person, rights, **origin)
        dismiss_all_notices(person)
    return person


@login_required
@require_http_methods(["GET", "POST"])
def tools(request: HttpRequest) -> HttpResponse:
    """Show the installed tools; one press allows them to the tenant."""
    tenant = _tenant(request)
    if request.method == "POST":
        enrolment.allow_tools(tenant, ["*"], **_origin(request))
        return redirect("desk:first-token")
    # Names and descriptions only: a template calls what can be called, and a tool can.
    described = [(tool.name, tool.description) for tool in contracts.tools.values()]
    context = {
        "tools": described,
        "has_examples": "examples.tools" in settings.TOOL_APPS,
        "step": 2,
    }
    return render(request, "first/tools.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def token(request: HttpRequest) -> HttpResponse:
    """Issue the first token, and wait for what comes with it."""
    tenant = _tenant(request)
    if request.method == "POST":
        agent = enrolment.agent_named(tenant, "first-agent", "First agent", **_origin(request))
        _revoke_earlier(agent, request)
        scopes = [Scope.PROPOSE.value, Scope.SUBMIT.value]
        issued = enrolment.issue(agent, scopes=scopes, **_origin(request))[1]
        return _token_page(request, tenant, issued)
    return _token_page(request, tenant, "")


def _revoke_earlier(agent: Agent, request: HttpRequest) -> None:
    for row in AgentToken.objects.filter(agent=agent, revoked_at=None):
        enrolment.revoke(row, **_origin(request))


def _token_page(request: HttpRequest, tenant: Tenant, issued: str) -> HttpResponse:
    context = {
        "token": issued,
        "example": _example(),
        "address": settings.PUBLIC_URL.rstrip("/"),
        "image": qr_code.data_url(settings.PUBLIC_URL) if issued else "",
        "step": 3,
    }
    return render(request, "first/token.html", context)


@login_required
@require_safe
def waiting(request: HttpRequest) -> HttpResponse:
    """Show the first request at the end of the last page, or that none has come yet."""
    first = Transaction.objects.filter(tenant=_tenant(request).slug).order_by("created_at").first()
    return render(request, "first/_waiting.html", {"first": first})


# For a tool of the examples; else the author of the tools knows better than we.
EXAMPLE = {"payment_id": "pay_1042", "amount": "48.20", "reason": "Arrived damaged"}


def _example() -> str:
    """The body of a first request."""
    names = list(contracts.tools)
    if "refund_customer" in names:
        return json.dumps({"tool": "refund_customer", "arguments": EXAMPLE})
    return json.dumps({"tool": names[0] if names else "your_tool", "arguments": {}})


def _tenant(request: HttpRequest) -> Tenant:
    """The tenant of the only operator. Once there are more people, all this is on other pages."""
    kept = [slug for slug, roles in roles_of(request.user).items() if Role.OPERATOR in roles]
    if len(kept) != 1 or User.objects.count() > 1:
        raise PermissionDenied(_("The first steps are for the first account alone."))
    return Tenant.objects.get(slug=kept[0])


def _origin(request: HttpRequest) -> dict[str, Any]:
    return {"by": principal_of(person_of(request)), "via": Surface.WEB}
