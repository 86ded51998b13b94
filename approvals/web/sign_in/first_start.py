"""The first start without anybody: the page of the first account."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import slugify
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from approvals.models import LinkPurpose, Role, SignInLink
from approvals.people import accounts, dismiss_all_notices
from approvals.people.sign_in import find_link, use_link
from approvals.presentation import refusal_in_words
from approvals.web.sign_in import authentication
from approvals.web.sign_in.sign_in import TooBusy, hashing_turn
from ledger.agents import enrolment
from ledger.errors import NotPossible
from ledger.principals import Surface, system

BY_LINK = system("first_start", "The link of the first start")
LOCK = 7_301_842_551  # of PostgreSQL: two tabs must not make two first accounts


class FirstAccountForm(BaseUserCreationForm):
    organisation = forms.CharField(label=gettext_lazy("Your organisation"), max_length=80)

    class Meta(BaseUserCreationForm.Meta):
        fields = ("username", "first_name", "last_name", "email")

    def clean_organisation(self) -> str:
        name: str = self.cleaned_data["organisation"]
        if not short_name(name):
            raise ValidationError(_("Write a name with letters or digits."))
        return name


def short_name(name: str) -> str:
    """The tenant's own name of an organisation, for addresses: ``muster-gmbh``."""
    return slugify(name)[:40].strip("-_")


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
        return redirect("desk:inbox")
    context = {"form": form}
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
        name = form.cleaned_data["organisation"]
        tenant = enrolment.tenant_named(short_name(name), name, **origin)
        enrolment.allow_tools(tenant, ["*"], **origin)
        for role in (Role.OPERATOR, Role.APPROVER):
            accounts.give_role(person, tenant.slug, role, **origin)
        accounts.let_into_admin(person, **origin)
        dismiss_all_notices(person)
    return person
