"""The page of one person: roles, names, ways of signing in and sessions, for their operators.

What belongs to the account itself is for operators of all the person's tenants. Of passkeys their
fingerprints are shown, of codes only that there are any.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.db.transaction import atomic
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from approvals.desk import holders_of
from approvals.models import CompanyIdentity, Membership, Role, SlackIdentity, UserName, Visit
from approvals.people import (
    ACCOUNT_KINDS,
    account_requests_of,
    accounts,
    end_key,
    keeps_own_address,
    listed,
    name_of,
    principal_of,
)
from approvals.people.sign_in import second_steps, sessions_of
from approvals.presentation import refusal_in_words
from approvals.web import ringing
from approvals.web.forms import ProfileForm
from approvals.web.record.pending import sentence_of
from approvals.web.settings.operators import (
    kept_people,
    kept_person,
    kept_tenants,
    origin_of,
    people_in,
)
from approvals.web.settings.people import SHORT, has_one_role, home_of, row_of
from approvals.web.settings.saving import saves_changes_only
from approvals.web.sign_in.authentication import person_of
from ledger.errors import LedgerError, NotFound
from ledger.events import ChangeKind, chain_of, four_eyes
from ledger.models import Event, Tenant
from ledger.sign_off.passkeys import KEY


class PersonForm(ProfileForm):
    """Name and address; the username until its owner has signed in with it."""

    class Meta(ProfileForm.Meta):
        fields = ("first_name", "last_name", "email", "username")  # type: ignore[assignment]
        labels = {
            **ProfileForm.Meta.labels,
            "email": gettext_lazy("E-mail address"),
            "username": gettext_lazy("Username"),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.last_login is not None:
            del self.fields["username"]  # colleagues know them by it
        if keeps_own_address(self.instance):
            del self.fields["email"]
        saves_changes_only(self)

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        others = UserName.objects.filter(name=name.lower()).exclude(user_id=self.instance.pk)
        if others.exists():
            raise ValidationError(_("Somebody else has this username, or once had it."))
        return name


@dataclass(frozen=True, slots=True)
class RoleRow:
    """A role, and the event that gave it, if the log has one."""

    tenant: Tenant
    role: str
    label: str
    given: Event | None
    effect: str  # of taking it away; empty where it cannot be taken


@login_required
@require_http_methods(["GET", "POST"])
def person(request: HttpRequest, person_id: int) -> HttpResponse:
    """One person; what is posted is saved."""
    tenants = kept_tenants(request)
    row = get_object_or_404(people_in(tenants), pk=person_id)
    is_kept = kept_people(tenants).filter(pk=person_id).exists()
    if request.method != "POST":
        return _page(request, row, tenants, is_kept)
    if not is_kept:
        raise Http404
    form = PersonForm(request.POST, instance=User.objects.get(pk=person_id))
    if not form.is_valid():
        return _page(request, row, tenants, is_kept, form=form)
    wanted = {name: form.cleaned_data[name] for name in form.changed_data}
    try:
        accounts.relabel(row, wanted, **origin_of(request))
    except ValidationError as refusal:
        form.add_error(None, refusal.messages)
        return _page(request, row, tenants, is_kept, form=form)
    messages.success(request, _("Saved."))
    return redirect("desk:person", person_id)


def _page(
    request: HttpRequest,
    row: User,
    tenants: QuerySet[Tenant],
    is_kept: bool,
    form: PersonForm | None = None,
) -> HttpResponse:
    operator = person_of(request)
    waiting = account_requests_of(operator) & four_eyes.waiting(*ACCOUNT_KINDS)
    waiting = waiting.filter(concerns=str(principal_of(row))).order_by("pk")
    context: dict[str, Any] = {
        "person": row,
        "line": row_of(row, tenants),
        "is_self": row == operator,
        "roles": _roles(row, tenants),
        "has_tenants": len(tenants) > 1,
        "waiting": [(change, sentence_of(change)) for change in waiting],
        "keys_waiting": {
            change.after[KEY]["credential"] for change in waiting if KEY in change.after
        },
        "slack": _slack(row, tenants),
        **(_of_account(row) if is_kept else {}),
    }
    if is_kept:
        context["form"] = form or PersonForm(instance=User.objects.get(pk=row.pk))
    status = 422 if form and form.errors else 200
    return render(request, "people/person.html", context, status=status)


def _of_account(row: User) -> dict[str, Any]:
    """The ways in, without anything by which somebody else could come in."""
    return {
        "last_seen": Visit.objects.filter(user=row).values_list("last_at", flat=True).first(),
        "passkeys": listed(row),
        "has_password": row.has_usable_password(),
        "has_app": second_steps.has_app(row),
        "has_company": CompanyIdentity.objects.filter(user=row).exists(),
        "sessions": sessions_of(row),
        "keeps_own_address": keeps_own_address(row),
    }


def _roles(row: User, tenants: QuerySet[Tenant]) -> list[RoleRow]:
    given: dict[tuple[str, str], Event] = {}
    own = Event.objects.filter(subject=chain_of(str(principal_of(row))), tenant__in=tenants)
    for event in own.filter(kind=ChangeKind.ROLE_GRANTED).order_by("pk"):
        given[event.tenant, json.loads(event.details).get("role", "")] = event
    rows = Membership.objects.filter(user=row, tenant__in=tenants).select_related("tenant")
    is_last = has_one_role(row)
    return [
        RoleRow(
            each.tenant,
            each.role,
            str(SHORT[each.role]),
            given.get((each.tenant_id, each.role)),
            _effect(row, each, is_last),
        )
        for each in rows.order_by("tenant", "role")
    ]


def _effect(person: User, role: Membership, is_last: bool) -> str:
    """Of taking the role away, in sentences; empty for a viewer without another role."""
    if role.role == Role.VIEWER:
        return "" if is_last else _("Their other roles let them see what they see now.")
    others = [each for each in holders_of(role.tenant_id, Role(role.role)) if each != person]
    names = {"tenant": role.tenant.name, "others": ", ".join(name_of(each) for each in others)}
    lost = {
        Role.APPROVER: _("They can no longer approve, reject or answer."),
        Role.OPERATOR: _("They can no longer settle anything or keep settings."),
    }
    left = _("{others} can, as before.") if others else _("Nobody else in {tenant} can.")
    stays = (
        [_("They stay as a viewer, who sees everything and decides nothing.")] if is_last else []
    )
    return " ".join([lost[Role(role.role)], left.format(**names), *stays])


def _slack(row: User, tenants: QuerySet[Tenant]) -> list[SlackIdentity]:
    if not apps.is_installed("approvals.slack"):
        return []
    rows = SlackIdentity.objects.filter(user=row, workspace__tenants__in=tenants)
    return list(rows.select_related("workspace").distinct())


@login_required
@require_POST
def end_sessions(request: HttpRequest, person_id: int) -> HttpResponse:
    """Sign the person out everywhere. One's own sessions are on the account page."""
    row = kept_person(request, person_id)
    if row == person_of(request):
        raise Http404
    with atomic():
        ended = accounts.end_sessions(row, **origin_of(request))
    for key in ended:
        ringing.ring_session(key)
    messages.success(request, _("Signed out everywhere."))
    return redirect("desk:person", row.pk)


@login_required
@require_POST
def let_sign(request: HttpRequest, person_id: int) -> HttpResponse:
    """Ask that a passkey of the person signs decisions; a second operator confirms it."""
    who, tenant = kept_person(request, person_id), home_of(request, person_id)
    try:
        accounts.let_sign(who, request.POST.get("passkey", ""), tenant, **origin_of(request))
    except LedgerError as refusal:
        messages.error(request, refusal_in_words(refusal))
    else:
        text = _("A second operator has to confirm it. It waits in their inbox.")
        messages.warning(request, text)
    return redirect("desk:person", person_id)


@login_required
@require_POST
def end_signing(request: HttpRequest, person_id: int) -> HttpResponse:
    """Nothing is signed any more with this passkey of the person. One operator is enough."""
    who = kept_person(request, person_id)
    try:
        end_key(who, request.POST.get("passkey", ""), **origin_of(request))
    except NotFound as refusal:
        messages.error(request, refusal_in_words(refusal))
    else:
        messages.success(request, _("The key has ended."))
    return redirect("desk:person", person_id)
