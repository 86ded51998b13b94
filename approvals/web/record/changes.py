"""Changes of people and set-up: the sealed ones, and those for a second operator."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _, gettext_noop
from django.views.decorators.http import require_POST, require_safe

from a2a.states import TaskEventKind
from approvals.desk import strength
from approvals.http.middleware import roles_of
from approvals.models import LinkPurpose, Membership, Role
from approvals.people import (
    accounts,
    knows_way_in,
    lets_decide,
    may_make_link,
    name_of,
    person_of_request,
    principal_of,
    role_in_words,
    that_sign,
    words_for_new_role,
)
from approvals.people.sign_in import new_link
from approvals.presentation import in_words, refusal_and_hint
from approvals.web.record import account_changes  # noqa: F401  (adds its kinds of change)
from approvals.web.record.pending import pending, requests_of, sentence_of
from approvals.web.record.rule_details import readable
from ledger import principals
from ledger.agents import enrolment
from ledger.errors import LedgerError, NotFound
from ledger.events import CHANGE_DESCRIPTIONS, ChangeKind, chain_of, four_eyes
from ledger.foundation.characters import without_nul
from ledger.foundation.postgres import keyset_page
from ledger.models import Agent, ChangeRequest, Event, RequestState, Tenant
from ledger.models.agents import ALL_TOOLS
from ledger.principals import Principal, Surface
from ledger.states import EventKind
from ledger.tools import registrations
from ledger.tools.registrations import Refused

PAGE = 50
MOST_NAMED = 12  # values in a list; of more the number is told
DIGEST = re.compile("[0-9a-f]{64}")
HIDDEN = {"subject", "name", "asked_by"}
# Names of what changed, as events keep them.
KEPT = (
    gettext_noop("role"),
    gettext_noop("scopes"),
    gettext_noop("review percent"),
)


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
    waiting = requests_of(person) & four_eyes.waiting(*four_eyes.KINDS)
    context = {
        "lines": [row_of(event) for event in page.rows],
        "next": page.cursor,
        "waiting": [(row, sentence_of(row)) for row in waiting.order_by("pk")],
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
    details = readable(event.kind, json.loads(event.details))
    edits = details.pop("edits", {})
    if "change" in details:
        details["change"] = _description(details["change"])
    if "role" in details:
        details["role"] = role_in_words(details["role"])
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


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        if len(value) > MOST_NAMED:
            return _("{number} of them").format(number=len(value))
        return ", ".join(_in_words(item) for item in value)
    if isinstance(value, dict):
        return f"({', '.join(f'{name}: {_in_words(item)}' for name, item in value.items())})"
    if isinstance(value, str) and DIGEST.fullmatch(value):
        return f"{value[:8]}…"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return "" if value is None else str(value)


@login_required
@require_safe
def change_view(request: HttpRequest, change_id: int) -> HttpResponse:
    """One change that waits, or waited: exactly what it does; confirming or declining it."""
    operator, change = _operator(request), _change(request, change_id)
    principal = principal_of(operator)
    context = {
        "change": change,
        "pending": pending(change),
        "is_own": change.asked_by == str(principal),
        "is_open": _is_open(change),
        "is_to_be_read": change.state == RequestState.ALONE
        and str(principal) not in {change.asked_by, change.concerns},
        "why_not": in_words(four_eyes.refusal(change, principal)),
    }
    try:
        is_signed = context["is_open"] and four_eyes.statement(change) is not None
    except LedgerError as refusal:  # what it changes cannot be read
        context["why_not"], is_signed = refusal_and_hint(refusal), False
    if is_signed:
        has_key = bool(that_sign(operator))
        context["is_signed"] = True
        context["why_no_key"] = "" if has_key else strength.why_no_key(operator)
    return render(request, "desk/change.html", context)


@login_required
@require_POST
def confirm_change(request: HttpRequest, change_id: int) -> HttpResponse:
    """Make the change that was on the screen: ``seen`` is its hash.

    With ``sign``, the options for the browser to sign it, where it has to be signed.
    """
    operator, change = _operator(request), _change(request, change_id)
    seen = request.POST.get("seen", "")
    if "sign" in request.POST:
        return _options(operator, change)
    try:
        signature = _signature(request, operator, change)
        four_eyes.confirm(
            change, seen=seen, by=principal_of(operator), via=Surface.WEB, **signature
        )
    except (LedgerError, Refused) as refusal:
        return _refused(request, change, refusal)
    if change.kind == registrations.KIND:
        _allow(change, principal_of(operator))
    if change.kind == ChangeKind.ACCESS_RESET:
        return _reset_link(request, person_of_request(change))
    told = _("Confirmed: it counts from now on.")
    if change.kind == ChangeKind.SIGNING_KEY_ENROLLED:
        told = _("Confirmed: the person is told, and it signs once its waiting time is over.")
    if lets_decide(change):
        return _role_confirmed(request, change, told)
    messages.success(request, told)
    return redirect("desk:changes")


def _is_open(change: ChangeRequest) -> bool:
    return four_eyes.waiting(change.kind).filter(pk=change.pk).exists()


def _options(operator: User, change: ChangeRequest) -> JsonResponse:
    def statement_of(nonce: str) -> Mapping[str, Any]:
        return four_eyes.statement(change, nonce) or {}

    try:
        if not _is_open(change) or four_eyes.statement(change) is None:
            raise NotFound(four_eyes.NO_SUCH_CHANGE)
        asked = strength.options_for(operator, _about_change(change), statement_of)
    except LedgerError as refusal:
        return JsonResponse({"problem": refusal_and_hint(refusal)}, status=refusal.status)
    return JsonResponse({"approve": asked})


def _signature(request: HttpRequest, operator: User, change: ChangeRequest) -> dict[str, Any]:
    """The browser's answer, where it is signed. Raises what ``answer_to`` raises."""
    if four_eyes.statement(change) is None:
        return {}
    answer = [request.POST.get(name, "") for name in ("credential", "nonce")]
    return {"assertion": strength.answer_to(operator, _about_change(change), *answer)[0]}


def _about_change(change: ChangeRequest) -> list[str]:
    """The subject of a nonce: this change as it was shown."""
    return ["confirm", str(change.pk), change.sha256]


def _allow(change: ChangeRequest, by: Principal) -> None:
    """The agents of its tenant may ask for a tool that two operators have registered."""
    tenant = Tenant.objects.get(slug=change.tenant)
    if not {ALL_TOOLS, change.subject} & {*tenant.tools}:
        enrolment.allow_tools(tenant, [change.subject], by=by, via=Surface.WEB)


@login_required
@require_POST
def decline_change(request: HttpRequest, change_id: int) -> HttpResponse:
    operator, change = _operator(request), _change(request, change_id)
    try:
        four_eyes.decline(change, by=principal_of(operator), via=Surface.WEB)
    except LedgerError as refusal:
        return _refused(request, change, refusal)
    messages.success(request, _("Declined: nothing was changed."))
    return redirect("desk:changes")


@login_required
@require_POST
def read_change(request: HttpRequest, change_id: int) -> HttpResponse:
    """Note that another operator has read what the only one made alone."""
    operator, change = _operator(request), _change(request, change_id)
    try:
        four_eyes.read(change, by=principal_of(operator), via=Surface.WEB)
    except LedgerError as refusal:
        return _refused(request, change, refusal)
    messages.success(request, _("Noted: you have read it."))
    return redirect("desk:inbox")


def _change(request: HttpRequest, change_id: int) -> ChangeRequest:
    return get_object_or_404(requests_of(_operator(request)), pk=change_id)


def _refused(request: HttpRequest, change: ChangeRequest, refusal: Exception) -> HttpResponse:
    words = refusal_and_hint(refusal) if isinstance(refusal, LedgerError) else str(refusal)
    messages.error(request, words)
    return redirect("desk:change", change.pk)


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
    elif words := words_for_new_role(person):
        messages.warning(request, words)
    return redirect("desk:changes")


def _reset_link(request: HttpRequest, person: User) -> HttpResponse:
    """The link of a person whose account two operators have reset, shown once."""
    link = new_link(LinkPurpose.RECOVER, person)
    return render(request, "people/link.html", {"person": person, "link": link})
