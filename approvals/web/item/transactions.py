"""A transaction at the desk: read the request, call one verb, render the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from babel.numbers import get_currency_precision
from django.contrib.auth.decorators import login_required
from django.db.models import Prefetch
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from a2a import origins
from approvals.desk import (
    ask_agent,
    can_be_allowed,
    confirmation_word,
    decisions,
    either_of,
    give_time,
    holders_of,
    inbox,
    leave_note,
    must_type,
    names_of_target,
    policies,
    signatures_of,
    signs_of,
    state_line,
    undo_offered_until,
    who_was_faster,
    why_no_key,
    why_stopped,
    without_room,
)
from approvals.http.middleware import Roles
from approvals.models import Role
from approvals.people import name_of, principal_of, that_sign
from approvals.presentation import (
    details_of,
    full_display,
    labels,
    names_of_pdfs,
    pieces_of,
    refusal_and_hint,
    refusal_in_words,
)
from approvals.web.forms import (
    ApproveForm,
    CompensateForm,
    MoreTimeForm,
    RejectForm,
    ResolveForm,
    SayForm,
    SendBackForm,
    SignForm,
)
from approvals.web.item.rules_in_preview import asked_in_preview
from approvals.web.item.thread_shown import thread_context
from approvals.web.listing import list_context
from approvals.web.requests import (
    roles_of_request,
    tenants_of_request,
    viewer_of,
    wants_fragment,
)
from approvals.web.sign_in.authentication import person_of
from ledger.errors import InvalidRequest, LedgerError, NotFound
from ledger.models import Event, Transaction
from ledger.principals import Surface
from ledger.reporting.usage import usual_of
from ledger.states import EventKind, State
from ledger.tools import silent_addresses

WANTED: dict[Callable[..., Transaction], str] = {
    decisions.approve: EventKind.APPROVED,
    decisions.reject: EventKind.REJECTED,
    decisions.send_back: EventKind.SENT_BACK,
}
SIGNED = ("credential", "nonce")
APPROVAL = ("digest", "typed", "shown", "opened", "reason", *SIGNED)
WHOLE = "whole"  # in the query: show everything, nothing folded


@login_required
@require_safe
def transaction(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return item_page(request, with_history(request, transaction_id))


@login_required
@require_POST
def approve(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    """Record the approval and respond with the item as it is afterwards."""
    form = ApproveForm(request.POST)
    return _decide(request, transaction_id, form, decisions.approve, *APPROVAL)


@login_required
@require_POST
def sign(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    """Have the browser sign an approval, or an outcome, with a passkey: it is sent along then."""
    form, person = SignForm(request.POST), person_of(request)

    def options() -> dict[str, Any]:
        asked = form.cleaned_data
        if outcome := asked["outcome"]:
            return decisions.sign_word(
                person, transaction_id, outcome=outcome, receipt=asked["receipt"]
            )
        return decisions.sign(person, transaction_id, shown=asked["shown"], opened=asked["opened"])

    return options_to_sign(form, options)


def options_to_sign(form: Form, options: Callable[[], dict[str, Any]]) -> JsonResponse:
    """The options for the script that has the browser sign, or the problem, as of the form."""
    try:
        if not form.is_valid():
            raise InvalidRequest(str(next(iter(form.errors.values()))[0]))
        return JsonResponse(options())
    except NotFound:
        raise Http404 from None
    except LedgerError as refusal:
        return JsonResponse({"problem": refusal_and_hint(refusal)}, status=refusal.status)


@login_required
@require_POST
def undo(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return _decide(request, transaction_id, Form(request.POST), decisions.undo)


@login_required
@require_POST
def reject(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return _decide(
        request, transaction_id, RejectForm(request.POST), decisions.reject, "digest", "reason"
    )


@login_required
@require_POST
def send_back(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    form = SendBackForm(request.POST)
    return _decide(request, transaction_id, form, decisions.send_back, "digest", "reason")


@login_required
@require_POST
def ask(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return _decide(request, transaction_id, SayForm(request.POST), ask_agent, "text")


@login_required
@require_POST
def note(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return _decide(request, transaction_id, SayForm(request.POST), leave_note, "text")


@login_required
@require_POST
def more_time(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return _decide(request, transaction_id, MoreTimeForm(request.POST), give_time, "until")


@login_required
@require_POST
def resolve(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    form = ResolveForm(request.POST)
    names = ("outcome", "receipt", "reason", *SIGNED)
    return _decide(request, transaction_id, form, decisions.resolve, *names)


@login_required
@require_POST
def compensate(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    form = CompensateForm(request.POST)
    return _decide(request, transaction_id, form, decisions.compensate, "reason", *SIGNED)


def _decide(
    request: HttpRequest,
    transaction_id: UUID,
    form: Form,
    verb: Callable[..., Transaction],
    *names: str,
) -> HttpResponse:
    if not form.is_valid():
        message = str(next(iter(form.errors.values()))[0])
        row = with_history(request, transaction_id)
        return item_page(request, row, status=422, problem=message)
    values = {name: form.cleaned_data[name] for name in names}
    try:
        verb(request.user, transaction_id, via=Surface.WEB, **values)
    except NotFound:
        raise Http404 from None
    except LedgerError as refusal:
        row = with_history(request, transaction_id)
        faster = who_was_faster(refusal, timezone.now())
        # Whoever wanted the same has lost nothing by it.
        is_same = bool(faster) and WANTED.get(verb) == refusal.extra.get("decision")
        problem = faster or refusal_in_words(refusal)
        return item_page(request, row, status=refusal.status, problem=problem, is_same=is_same)
    if not wants_fragment(request):
        return redirect("desk:transaction", transaction_id)
    return item_page(request, with_history(request, transaction_id))


def item_page(
    request: HttpRequest,
    row: Transaction,
    status: int = 200,
    problem: str = "",
    *,
    is_same: bool = False,
) -> HttpResponse:
    context = item_context(request, row) | {"problem": problem, "is_same": is_same}
    context["typed"] = request.POST.get("text", "") if problem else ""
    if wants_fragment(request):
        return render(request, "desk/_item.html", context, status=status)
    context["beside"] = inbox.beside(row, viewer_of(request))
    return render(request, "desk/transaction.html", list_context(request) | context, status=status)


def with_history(request: HttpRequest, transaction_id: UUID) -> Transaction:
    """The row with decisions and events; ``Http404`` for a transaction of another tenant."""
    row = (
        Transaction.objects.for_tenants(tenants_of_request(request))
        .prefetch_related("decisions", Prefetch("events", Event.objects.order_by("seq")))
        .filter(pk=transaction_id)
        .first()
    )
    if row is None:
        raise Http404
    return row


def item_context(request: HttpRequest, row: Transaction) -> dict[str, Any]:
    principal, roles = _viewer(request), roles_of_request(request)
    now = timezone.now()
    may_decide = policies.may_decide(row, principal, roles, now)
    is_signed, person = policies.asks_to_sign(row), person_of(request)
    is_fast = bool(may_decide) and must_type(person, row)
    has_to_type = policies.asks_to_type(row) or (is_fast and not is_signed)
    has_key = (is_signed or (bool(may_decide) and has_to_type)) and bool(that_sign(person))
    needs_dialog = has_to_type or (is_signed and policies.is_irreversible(row))
    signing, events = signatures_of(row, principal), list(row.events.all())
    asked_as = origins.asked_as(row)
    offered = asked_as.reject_options if asked_as else []
    pieces = pieces_of(row)
    return {
        **_shown(request, row),
        **_settling(row, principal, roles),
        **thread_context(row, events, viewer_of(request), now),
        "tx": row,
        "asked_as": asked_as,
        "may_decide": may_decide,
        "may_allow": may_decide and can_be_allowed(row),
        "without_room": without_room(row),
        "may_reject": may_decide or policies.may_reject(row, principal, roles, now),
        "line": state_line(row, principal, signing, may_decide=bool(may_decide)),
        "signing": signing,
        "in_preview": asked_in_preview(row),
        "silence": silent_addresses.silence_of(row),
        "stopped_by": why_stopped(row) if row.state in {State.PREPARED, State.APPROVED} else "",
        "is_irreversible": policies.is_irreversible(row),
        "has_to_type": has_to_type,
        "is_signed": is_signed,
        "may_sign": bool(may_decide) and has_key,
        "signs_word": is_signed and has_key,
        "why_no_key": why_no_key(person) if is_signed and not has_key else "",
        "asks_for_note": policies.asks_for_note(row),
        "approves_in_dialog": needs_dialog or policies.asks_for_note(row),
        "is_asked_by_rules": policies.asks_to_type(row) or policies.asks_for_note(row),
        "confirmation_word": confirmation_word(row),
        "spellings": _spellings(row) if has_to_type else {},
        "left_by": policies.passed_on_by(row),
        "undo": policies.undo_in_contract(row),
        "undo_until": undo_offered_until(row, principal),
        "quick_reasons": [option.text for option in offered] or _quick_reasons(row),
        "details": details_of(row, labels.compared(row)),
        "pieces": pieces,
        "pdfs": names_of_pdfs(row),
        "has_changed_evidence": any(piece.kind == "changed" for piece in pieces),
        "events": events,
        "withdrawal": _withdrawal_in(row, events),
        "is_open": row.state == State.PREPARED,
        # Of what is decided, figures of today would say something else.
        "usual": usual_of(row) if row.state == State.PREPARED else None,
        "viewer": principal,
        "back_at": inbox.set_aside_by(viewer_of(request)).get(row.pk),
        "aside_choices": inbox.choices(row, now) if may_decide else [],
        "link": request.build_absolute_uri(reverse("desk:transaction", args=[row.pk])),
    }


def _withdrawal_in(row: Transaction, events: list[Event]) -> Event | None:
    """The event by which an approval was withdrawn, while it is the latest news of the row."""
    is_news = row.state == State.PREPARED and events[-1].kind == EventKind.APPROVAL_WITHDRAWN
    return events[-1] if is_news else None


def _quick_reasons(row: Transaction) -> list[str]:
    return [
        _("Not allowed by policy"),
        _("Wrong amount") if row.amount is not None else _("Wrong target"),
        _("Ask again with more detail"),
    ]


def _viewer(request: HttpRequest) -> str:
    return str(principal_of(request.user))  # type: ignore[arg-type]


def _shown(request: HttpRequest, row: Transaction) -> dict[str, Any]:
    """The part of it that the page shows; only the page with everything has the proof of it."""
    as_opened = full_display.coverage(row, full_display.DESK)
    is_whole = as_opened.is_complete or WHOLE in request.GET or row.state != State.PREPARED
    # Kept in every address of the page, so that a refresh does not fold it again.
    query = f"?{WHOLE}=1" if WHOLE in request.GET else ""
    return {
        "as_opened": as_opened,
        "is_whole": is_whole,
        "address": reverse("desk:transaction", args=[row.pk]) + query,
        "query": query,
        "proof": full_display.proof_of(row, request.user) if is_whole else "",  # type: ignore[arg-type]
        "warnings_most": full_display.SURFACES[full_display.DESK].warnings_most,
    }


def _settling(row: Transaction, principal: str, roles: Roles) -> dict[str, Any]:
    may_operate = policies.may_operate(row, principal, roles)
    gone = {row.proposed_by, *policies.barred_keepers_of(row)}
    operators = [] if may_operate else holders_of(row.tenant, Role.OPERATOR)
    operators = [person for person in operators if str(principal_of(person)) not in gone]
    return {
        "may_operate": may_operate,
        "can_compensate": policies.can_compensate(row),
        "settling": policies.settling(row, principal),
        "operators": either_of([name_of(person) for person in operators]),
    }


def _spellings(row: Transaction) -> dict[str, Any]:
    """Data for the dialog to say at once whether the typed text matches."""
    if row.content_erased_at is not None:
        return {}
    if row.amount is None:
        return {"names": names_of_target(row)}
    return {
        "amount": f"{row.amount.normalize():f}",
        "precision": get_currency_precision(row.currency),
        "signs": signs_of(row.currency),
    }
