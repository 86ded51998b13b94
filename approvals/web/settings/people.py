"""The page *People*: who has which role in an operator's tenants; invitations and changes of roles.

Everything goes through ``approvals.people.accounts``: sealed, told, and by two where that is due.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.db.transaction import atomic
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.models import Membership, Role
from approvals.people import (
    ACCOUNT_KINDS,
    account_requests_of,
    accounts,
    is_alone,
    keep_as_viewer,
    may_decide,
    principal_of,
    words_for_new_role,
)
from approvals.presentation import refusal_in_words
from approvals.web.settings.operators import (
    kept_person,
    kept_tenants,
    origin_of,
    people_in,
)
from approvals.web.sign_in.authentication import person_of
from ledger.errors import NotPossible, Sentence
from ledger.events import ChangeKind, four_eyes
from ledger.models import Tenant

ROLES = {
    Role.VIEWER.value: gettext_lazy("Viewer: sees everything, decides nothing"),
    Role.APPROVER.value: gettext_lazy("Manager: approves and rejects"),
    Role.OPERATOR.value: gettext_lazy("Operator: keeps the ledger, settles what is in doubt"),
}
SHORT = {
    Role.VIEWER.value: gettext_lazy("Viewer"),
    Role.APPROVER.value: gettext_lazy("Manager"),
    Role.OPERATOR.value: gettext_lazy("Operator"),
}


class InviteForm(forms.Form):
    username = forms.CharField(label=gettext_lazy("Username"), max_length=150)
    name = forms.CharField(label=gettext_lazy("Name"), max_length=150, required=False)
    email = forms.EmailField(label=gettext_lazy("E-mail address"), required=False)
    tenant = forms.ChoiceField(label=gettext_lazy("Tenant"))
    role = forms.ChoiceField(label=gettext_lazy("Role"), choices=list(ROLES.items()))

    def __init__(self, *args: Any, tenants: QuerySet[Tenant], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(tenant.slug, tenant.name) for tenant in tenants]
        self.fields["tenant"].choices = choices  # type: ignore[attr-defined]
        if len(choices) == 1:
            self.fields["tenant"].initial = choices[0][0]
            self.fields["tenant"].widget = forms.HiddenInput()
        self.fields["role"].initial = Role.APPROVER.value


@dataclass(frozen=True, slots=True)
class PersonRow:
    """One person with the roles that the operator may see."""

    person: User
    roles: list[tuple[str, str, str]]  # tenant, role, and the role in words
    is_all_ours: bool  # belongs to no other tenant: the account itself may be changed
    has_come_in: bool
    offered: list[tuple[str, str]]  # roles that could be given, as "tenant role", and in words


@login_required
@require_safe
def people(request: HttpRequest) -> HttpResponse:
    return _page(request, kept_tenants(request))


def _page(request: HttpRequest, tenants: QuerySet[Tenant], **more: Any) -> HttpResponse:
    waiting = account_requests_of(person_of(request)) & four_eyes.waiting(*ACCOUNT_KINDS)
    rows = people_in(tenants).prefetch_related("memberships")
    context = {
        "lines": [row_of(person, tenants) for person in rows],
        "form": InviteForm(tenants=tenants),
        "tenants": tenants,
        "waiting": waiting.count(),
        **more,
    }
    status = 422 if getattr(context["form"], "errors", None) else 200
    return render(request, "people/people.html", context, status=status)


def row_of(person: User, tenants: QuerySet[Tenant]) -> PersonRow:
    ours = {tenant.slug: tenant.name for tenant in tenants}
    every = [(row.tenant_id, row.role) for row in person.memberships.all()]
    has = sorted(each for each in every if each[0] in ours)
    offered = [
        (f"{slug} {role}", f"{SHORT[role]} · {name}" if len(ours) > 1 else str(SHORT[role]))
        for slug, name in ours.items()
        for role in Role.values
        if (slug, role) not in has
    ]
    return PersonRow(
        person,
        [(tenant, role, str(SHORT[role])) for tenant, role in has],
        all(tenant in ours for tenant, _role in every) and not person.is_superuser,
        person.last_login is not None or person.has_usable_password(),
        offered,
    )


@login_required
@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    """Make the person, their role, and the link, which is shown once."""
    tenants = kept_tenants(request)
    form = InviteForm(request.POST, tenants=tenants)
    if not form.is_valid():
        return _page(request, tenants, form=form)
    wanted, origin = form.cleaned_data, origin_of(request)
    try:
        labels = {"email": wanted["email"], "name": wanted["name"]}
        with atomic():  # nobody confirms the role before the link is there, and so ended with it
            person = accounts.invite(wanted["username"], **labels, **origin)
            # A viewer's role counts at once, so that the person is on this page.
            accounts.give_role(person, wanted["tenant"], Role.VIEWER, **origin)
            is_done = accounts.give_role(person, wanted["tenant"], wanted["role"], **origin)
            link = accounts.make_link(person, **origin)
    except ValidationError as refusal:
        form.add_error("username", refusal.messages[0])
        return _page(request, tenants, form=form)
    return _page(request, tenants, link=link, invited=person, is_role_given=is_done)


@login_required
@require_POST
def new_link(request: HttpRequest, person_id: int) -> HttpResponse:
    """Another link for a person who has not come in yet; the earlier one ends.

    Who may decide already gets it by two operators.
    """
    tenants, person = kept_tenants(request), kept_person(request, person_id)
    if person.last_login is not None or person.has_usable_password():
        raise Http404
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)  # no role is confirmed meanwhile
        if may_decide(person) and not _is_lone_operator(request, person):
            return reset(request, person_id)  # nobody alone gets a way into such an account
        link = accounts.make_link(person, **origin_of(request))
    return _page(request, tenants, link=link, invited=person, is_role_given=True)


def _is_lone_operator(request: HttpRequest, person: User) -> bool:
    """True if in every tenant where the person decides, nobody but this operator could give it."""
    by = principal_of(person_of(request))
    deciding = Membership.objects.filter(user=person).exclude(role=Role.VIEWER)
    return all(
        is_alone(ChangeKind.ROLE_GRANTED, row.tenant_id, person, by, row.role) for row in deciding
    )


@login_required
@require_POST
def give_role(request: HttpRequest, person_id: int) -> HttpResponse:
    return _change_role(request, person_id, accounts.give_role)


@login_required
@require_POST
def take_role(request: HttpRequest, person_id: int) -> HttpResponse:
    """A person whose last role is taken stays as a viewer, so that nobody is lost."""
    return _change_role(request, person_id, _take_role)


def _take_role(person: User, tenant: str, role: str, **origin: Any) -> bool:
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        if not Membership.objects.filter(user=person, tenant=tenant, role=role).exists():
            raise NotPossible(Sentence("They do not have this role any more."))
        if role == Role.VIEWER and has_one_role(person):
            raise NotPossible(Sentence("It is their last role: close the account instead."))
        is_done = accounts.take_role(person, tenant, role, **origin)
        if is_done:
            keep_as_viewer(person, tenant, **origin)
    return is_done


def has_one_role(person: User) -> bool:
    return Membership.objects.filter(user=person).count() == 1


def _change_role(request: HttpRequest, person_id: int, verb: Any) -> HttpResponse:
    tenants = kept_tenants(request)
    person = people_in(tenants).filter(pk=person_id).first()
    tenant, _space, role = request.POST.get("role", "").partition(" ")
    is_known = role in Role.values and tenants.filter(slug=tenant).exists()
    if person is None or not is_known:
        raise Http404
    try:
        is_done = verb(person, tenant, role, **origin_of(request))
    except NotPossible as refusal:
        messages.error(request, refusal_in_words(refusal))
        return redirect("desk:person", person_id)
    gives_decisions = is_done and verb is accounts.give_role and role != Role.VIEWER
    if gives_decisions and (words := words_for_new_role(person)):
        messages.warning(request, words)
    return _told(request, person_id, is_done)


@login_required
@require_POST
def set_active(request: HttpRequest, person_id: int) -> HttpResponse:
    """Close the account, or open it again."""
    person, tenant = kept_person(request, person_id), home_of(request, person_id)
    value = request.POST.get("active") == "1"
    is_done = accounts.set_flag(person, "is_active", value, tenant=tenant, **origin_of(request))
    return _told(request, person_id, is_done)


@login_required
@require_POST
def reset(request: HttpRequest, person_id: int) -> HttpResponse:
    """Ask that all ways in of the person end; a second operator confirms, and gets the link."""
    person, tenant = kept_person(request, person_id), home_of(request, person_id)
    return _told(request, person_id, accounts.reset_access(person, tenant, **origin_of(request)))


def _told(request: HttpRequest, person_id: int, is_done: bool) -> HttpResponse:
    if is_done:
        messages.success(request, _("Done."))
    else:
        text = _("A second operator has to confirm it. It waits in their inbox.")
        messages.warning(request, text)
    if people_in(kept_tenants(request)).filter(pk=person_id).exists():
        return redirect("desk:person", person_id)
    return redirect("desk:people")


def home_of(request: HttpRequest, person_id: int) -> str:
    """A tenant of the person that this operator keeps, whose operators may confirm a change."""
    rows = Membership.objects.filter(user=person_id, tenant__in=kept_tenants(request))
    return str(rows.order_by("tenant").values_list("tenant", flat=True)[0])
