"""Change, then approve: a form for the arguments that may be corrected, and the new plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from approvals.desk import policies, revise
from approvals.models import Role
from approvals.presentation import full_display, in_words, refusal_and_hint
from approvals.presentation.forms import Node, form_of, place_misfits, read_form, show_value
from approvals.web.forms import ChangeForm
from approvals.web.item.transactions import item_context, item_page, with_history
from approvals.web.requests import roles_of_request, viewer_of
from approvals.web.sign_in.authentication import person_of
from ledger.contracts import Tool
from ledger.errors import InvalidArguments, LedgerError, NotFound
from ledger.models import Transaction
from ledger.principals import Surface
from ledger.states import State
from ledger.tools import tool_of
from ledger.transactions import coordinator


@login_required
@require_http_methods(["GET", "POST"])
def change(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    """The form; then the item with its new plan, and nothing decided."""
    row = with_history(request, transaction_id)
    if Role.APPROVER not in roles_of_request(request).get(row.tenant, frozenset()):
        raise PermissionDenied
    viewer = viewer_of(request)
    may = policies.may_change(row, viewer.principal, viewer.roles, timezone.now())
    tool, why = tool_of(row), may.why_not or in_words(coordinator.why_not_editable(row))
    if why or tool is None:
        return item_page(request, row, status=409 if request.method == "POST" else 200, problem=why)
    schema = _schema_of(row, tool)
    node, sent = form_of(schema), ChangeForm(request.POST or None)
    show_value(node, _present(row, schema))
    problem, status = "", 200
    if request.method == "POST":
        before, node = node, form_of(schema)
        value = read_form(node, request.POST, schema)
        problem, status = _("Something below does not fit."), 422
        if sent.is_valid() and not node.is_faulty:
            try:
                _revise(request, row, sent, _typed(before, node, value, schema))
                return redirect("desk:transaction", transaction_id)
            except LedgerError as refusal:
                problem, status = _refused(node, refusal), refusal.status
    row = with_history(request, transaction_id)
    if row.state != State.PREPARED:
        return item_page(request, row, status=status, problem=problem)
    context = _context(request, row, node) | {"sent": sent, "problem": problem}
    return render(request, "desk/change_arguments.html", context, status=status)


def _revise(
    request: HttpRequest, row: Transaction, sent: ChangeForm, arguments: Mapping[str, Any]
) -> None:
    """Raises ``LedgerError``, and ``Http404``."""
    values = {name: sent.cleaned_data[name] for name in ("digest", "shown", "reason")}
    try:
        revise(person_of(request), row.pk, arguments, via=Surface.WEB, **values)
    except NotFound:
        raise Http404 from None


def _refused(node: Node, refusal: LedgerError) -> str:
    """Why it was refused. What the arguments lack stands at their fields."""
    if isinstance(refusal, InvalidArguments):
        place_misfits(node, refusal.extra.get("errors", []))
    return refusal_and_hint(refusal)


def _context(request: HttpRequest, row: Transaction, node: Node) -> dict[str, Any]:
    """Everything of it is shown, so that the page has the proof of that."""
    context = item_context(request, row) | {"node": node.numbered(), "is_whole": True}
    return context | {"proof": full_display.proof_of(row, person_of(request))}


def _schema_of(row: Transaction, tool: Tool[Any, Any]) -> dict[str, Any]:
    """The schema of the arguments that may be changed, and of no other."""
    schema = tool.arguments_model.model_json_schema()
    names = tool.editable_arguments
    properties = schema.get("properties", {})
    return {
        **schema,
        "properties": {name: properties[name] for name in names if name in properties},
        "required": [name for name in schema.get("required", []) if name in names],
    }


def _present(row: Transaction, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row.arguments[name] for name in schema["properties"] if name in row.arguments}


def _typed(
    before: Node, node: Node, value: Mapping[str, Any], schema: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments whose fields the person has changed; an emptied one has its default again."""
    if node.kind != "group":
        return dict(value)
    shown = {each.path: _contents(each) for each in before.children}
    changed = [each for each in node.children if _contents(each) != shown.get(each.path)]
    names = [each.path[-1] for each in changed if each.path]
    return {
        name: value.get(name, schema["properties"].get(name, {}).get("default")) for name in names
    }


def _contents(field: Node) -> list[tuple[str, list[str]]]:
    return [(each.text.strip(), each.chosen) for each in field.every()]
