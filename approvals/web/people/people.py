"""Pages about accounts: sealed changes, changes to confirm, one's own password, notices."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_noop
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from a2a.states import TaskEventKind
from approvals.http.middleware import roles_of
from approvals.models import LinkPurpose, Membership, Role
from approvals.people import (
    accounts,
    confirm_request,
    decline_request,
    dismiss_one_notice,
    event_details,
    knows_way_in,
    lets_decide,
    may_make_link,
    name_of,
    names_of,
    person_of_request,
    principal_of,
    requests_visible_to,
    words_of_ended_link,
)
from approvals.people.sign_in import new_link, remember_session
from approvals.presentation import in_words, refusal_and_hint
from approvals.web.sign_in import authentication
from ledger import four_eyes, limits, principals
from ledger.errors import LedgerError, LimitReached
from ledger.events import CHANGE_DESCRIPTIONS, ChangeKind, chain_of
from ledger.foundation.characters import without_nul
from ledger.foundation.postgres import keyset_page
from ledger.models import Agent, ChangeRequest, Event
from ledger.principals import Surface
from ledger.states import EventKind

PAGE = 50
HIDDEN = {"subject", "name", "asked_by"}
# Roles, and names of what changed, as events keep them.
KEPT = (
    gettext_noop("approver"),
    gettext_noop("operator"),
    gettext_noop("viewer"),
    gettext_noop("role"),
    gettext_noop("scopes"),
    gettext_noop("review percent"),
)
ASKED: dict[str, str] = {
    ChangeKind.ROLE_GRANTED: gettext_noop(
        "{asker} asks to give the role {role} in {tenant} to {name}."
    ),
    ChangeKind.ROLE_REVOKED: gettext_noop(
        "{asker} asks to take the role {role} in {tenant} from {name}."
    ),
    ChangeKind.USER_ACTIVATED: gettext_noop("{asker} asks to open the account of {name}."),
    ChangeKind.USER_DEACTIVATED: gettext_noop("{asker} asks to close the account of {name}."),
    ChangeKind.STAFF_GRANTED: gettext_noop("{asker} asks to let {name} into the admin."),
    ChangeKind.STAFF_REVOKED: gettext_noop("{asker} asks to shut {name} out of the admin."),
    ChangeKind.SUPERUSER_GRANTED: gettext_noop("{asker} asks to make a superuser of {name}."),
    ChangeKind.SUPERUSER_REVOKED: gettext_noop(
        "{asker} asks to take the rights of a superuser from {name}."
    ),
    ChangeKind.PERMISSIONS_CHANGED: gettext_noop(
        "{asker} asks to change the permissions in the admin of {name}."
    ),
    ChangeKind.ACCESS_RESET: gettext_noop(
        "{asker} asks to end every way in which {name} signs in, and to make a new link."
    ),
}


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change, as the page shows it."""

    event: Event
    description: str
    subject_name: str
    details: list[tuple[str, str]]


@login_required
@require_safe
def changes_view(request: HttpRequest) -> HttpResponse:
    """Newest first; ``before`` is the event that the last page ended with."""
    person = _operator(request)
    rows = changes_for(person)
    who, kind = without_nul(request.GET.get("who", "")).strip(), request.GET.get("kind", "")
    if who:
        rows = rows.filter(_about(who))
    if kind in CHANGE_DESCRIPTIONS:
        rows = rows.filter(kind=kind)
    before = request.GET.get("before", "")
    is_position = before.isdecimal() and len(before) < 19
    page = keyset_page(rows, PAGE, before=(int(before),) if is_position else None)
    pending = [
        (
            row,
            in_words(four_eyes.refusal(row, principal_of(person))),
            described_request(row),
            permissions_of_pending(row),
            knows_way_in(row),
        )
        for row in requests_visible_to(person).order_by("pk")
    ]
    context = {
        "lines": [row_of(event) for event in page.rows],
        "next": page.cursor,
        "pending": pending,
        "own_principal": str(principal_of(person)),
        "who": who,
        "kind": kind,
        "kinds": sorted(
            ((kind, in_words(text)) for kind, text in CHANGE_DESCRIPTIONS.items()),
            key=lambda item: item[1].casefold(),
        ),
    }
    return render(request, "desk/changes.html", context)


def _operator(request: HttpRequest) -> User:
    person = cast(User, request.user)
    if not (person.is_superuser or _tenants_kept_by(person)):
        raise PermissionDenied(_("Who changed what is for operators to see."))
    return person


def _tenants_kept_by(person: User) -> list[str]:
    return [slug for slug, roles in roles_of(person).items() if Role.OPERATOR in roles]


def changes_for(person: User) -> QuerySet[Event]:
    """Changes in the person's tenants, and of accounts in no other tenant; a superuser sees all."""
    # As an expression: with the column, PostgreSQL may read the changes by kind, and all of them.
    kind = Concat("kind", Value(""))
    # Not by the kinds that are described: those of apps that were left out since stay in the list.
    of_others = [*EventKind, *TaskEventKind]
    rows = Event.objects.alias(its_kind=kind).filter(to_state="").exclude(its_kind__in=of_others)
    if person.is_superuser:
        return rows
    tenants = _tenants_kept_by(person)
    own = Membership.objects.filter(tenant__in=tenants).values_list("user", flat=True)
    others = Membership.objects.exclude(tenant__in=tenants).values("user")
    keys = own.exclude(user__in=others).distinct()
    chains = [chain_of(str(principals.user(key))) for key in keys]
    return rows.filter(Q(tenant__in=tenants) | Q(tenant="", subject__in=chains))


def _about(who: str) -> Q:
    """By or of the people and agents of this name; whole user names, slugs, or parts of names."""
    people = User.objects.filter(
        Q(username__iexact=who) | Q(first_name__iexact=who) | Q(last_name__iexact=who)
    )[:50]
    agents = Agent.objects.filter(Q(slug=who) | Q(name__iexact=who))[:50]
    keys = [str(principal_of(person)) for person in people]
    keys += [str(agent.principal) for agent in agents]
    chains = [chain_of(key) for key in keys]
    return Q(principal__in=keys) | Q(subject__in=chains) | Q(principal_name__iexact=who)


def row_of(event: Event) -> ChangeRow:
    details: dict[str, Any] = json.loads(event.details)
    edits = details.pop("edits", {})
    if "change" in details:
        details["change"] = _description(details["change"])
    if "role" in details:
        details["role"] = _(details["role"])
    facts = [(name, _in_words(value)) for name, value in details.items() if name not in HIDDEN]
    nothing = _("nothing")
    facts += [
        (name, f"{_in_words(old) or nothing} → {_in_words(new) or nothing}")
        for name, (old, new) in edits.items()
    ]
    shown = [(_(name.replace("_", " ")), text) for name, text in facts if text]
    description = _description(event.kind)
    return ChangeRow(event, description, str(details.get("name", "")), shown)


def _description(kind: str) -> str:
    """In words; the kind itself, if its app was left out since."""
    return in_words(CHANGE_DESCRIPTIONS.get(kind, kind))


def described_request(request: ChangeRequest) -> SafeString:
    """The person who asks, and what confirming it would do."""
    asker, person = names_of([request.asked_by, request.concerns])
    role = request.after.get("role", "")
    return format_html(
        _(ASKED[request.kind]),
        asker=_strong(asker),
        name=_strong(person),
        role=role and _(role),
        tenant=request.tenant,
    )


def _strong(name: str) -> SafeString:
    return format_html("<strong><bdi>{}</bdi></strong>", name)


def permissions_of_pending(request: ChangeRequest) -> list[tuple[str, list[str]]]:
    """Every permission that confirming the change would give or take, by name."""
    if request.kind != ChangeKind.PERMISSIONS_CHANGED:
        return []
    person = person_of_request(request)
    has = set(person.user_permissions.values_list("pk", flat=True))
    wanted = set(request.after["permissions"])
    named = [
        (word, event_details({"permissions": list(keys)})["permissions"])
        for word, keys in ((_("Gives"), wanted - has), (_("Takes"), has - wanted))
    ]
    return [(word, names) for word, names in named if names]


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_in_words(item) for item in value)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return "" if value is None else str(value)


@login_required
@require_POST
def confirm_change(request: HttpRequest, change_id: int) -> HttpResponse:
    told = _("Confirmed: it counts from now on.")
    return _settle(request, change_id, confirm_request, told)


@login_required
@require_POST
def decline_change(request: HttpRequest, change_id: int) -> HttpResponse:
    told = _("Declined: nothing was changed.")
    return _settle(request, change_id, decline_request, told)


def _settle(request: HttpRequest, change_id: int, verb: Any, message: str) -> HttpResponse:
    try:
        change = verb(change_id, by=_operator(request), via=Surface.WEB)
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    else:
        if change.kind == ChangeKind.ACCESS_RESET and verb is confirm_request:
            return _reset_link(request, person_of_request(change))
        if verb is confirm_request and lets_decide(change):
            return _role_confirmed(request, change, message)
        messages.success(request, message)
    return redirect("desk:changes")


def _role_confirmed(request: HttpRequest, change: ChangeRequest, message: str) -> HttpResponse:
    """The new link of who has not come in yet, shown once; else who may have come in as them."""
    operator, person = cast(User, request.user), person_of_request(change)
    if may_make_link(operator, change):
        link = accounts.make_link(person, by=principal_of(operator), via=Surface.WEB)
        context = {"person": person, "link": link, "is_of_role": True}
        return render(request, "people/link.html", context)
    messages.success(request, message)
    if maker := knows_way_in(change):
        text = _("%(person)s has come in already, by a link that %(maker)s made.")
        messages.warning(request, text % {"person": name_of(person), "maker": maker})
    elif words := words_of_ended_link(person):
        messages.warning(request, words)
    return redirect("desk:changes")


def _reset_link(request: HttpRequest, person: User) -> HttpResponse:
    """The link of a person whose account two operators have reset, shown once."""
    link = new_link(LinkPurpose.RECOVER, person)
    return render(request, "people/link.html", {"person": person, "link": link})


@sensitive_post_parameters()
@login_required
@require_http_methods(["GET", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Change one's own password, given the old one; whoever has none confirms who they are first.

    Every other session of the account ends.
    """
    person = cast(User, request.user)
    has_one = person.has_usable_password()
    if not has_one and not authentication.was_confirmed(request):
        return redirect(f"{reverse('desk:account-confirm')}?next={request.path}")
    form_of: Any = PasswordChangeForm if has_one else SetPasswordForm
    form = form_of(person, request.POST or None)
    try:
        is_valid = request.method == "POST" and _is_valid(request, form)
    except LimitReached as refusal:
        messages.error(request, _("Too many attempts failed. Wait a minute."))
        answer = render(request, "desk/password.html", {"form": form_of(person)}, status=429)
        answer["Retry-After"] = str(refusal.retry_after_s)
        return answer
    if is_valid:
        accounts.set_password(
            person, form.cleaned_data["new_password1"], by=principal_of(person), via=Surface.WEB
        )
        update_session_auth_hash(request, person)
        remember_session(request, person)
        messages.success(request, _("Your password is changed. Every other session was ended."))
        return redirect("desk:password")
    status = 422 if form.errors else 200
    return render(request, "desk/password.html", {"form": form}, status=status)


def _is_valid(request: HttpRequest, form: Any) -> bool:
    """Look at the passwords. An old one that is wrong counts as a wrong code: ``LimitReached``."""
    address, key = authentication.address_of(request), str(request.user.pk)
    limits.attempt_code(address, key)
    is_valid: bool = form.is_valid()
    if "old_password" not in form.errors:
        limits.code_was_right(address, key)
    return is_valid


@login_required
@require_POST
def dismiss_notice(request: HttpRequest, notice_id: int) -> HttpResponse:
    dismiss_one_notice(notice_id, cast(User, request.user))
    there = request.POST.get("next", "")
    is_ours = there.startswith("/") and not there.startswith(("//", "/\\"))
    return redirect(there if is_ours else "desk:inbox")
