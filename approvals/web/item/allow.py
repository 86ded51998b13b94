"""Approve and allow: a person signs an item, and in advance what is like it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any
from uuid import UUID

from babel.numbers import get_currency_precision
from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods

from approvals.desk import (
    allow,
    may_allow,
    not_filled_by,
    policies,
    sign_to_allow,
    span_of,
    time_between,
    who_was_faster,
)
from approvals.models import Role
from approvals.presentation import (
    Value,
    amount_written,
    argument_label,
    details_of,
    full_display,
    grant_in_words,
    labels,
    refusal_and_hint,
    standing_address,
)
from approvals.presentation.labels import first_large, read
from approvals.web.forms import ApproveForm
from approvals.web.item.transactions import item_context, options_to_sign, with_history
from approvals.web.requests import roles_of_request, viewer_of
from approvals.web.sign_in.authentication import person_of
from ledger import contracts
from ledger.contracts import RiskLevel
from ledger.errors import LedgerError
from ledger.models import Grant, Transaction
from ledger.sign_off import grants
from ledger.sign_off.rules import Per, text_of
from ledger.states import Ending
from ledger.tools import tool_of

AT_FIVE, TODAY, AT = "five", "today", "at"
LOOKED_BACK = timedelta(days=7)
COMPARED = 50  # proposals, to see which arguments stay the same
MOST_FIXED, LONGEST_FIXED = 15, 200  # as many conditions, and characters, as a rule can have
MOST_LISTED = 5
AMOUNTS = frozenset({"amount", "price", "sum", "total", "value"})
_NUMBER = {"inputmode": "decimal", "size": 10, "autocomplete": "off"}


class AllowForm(forms.Form):
    """Bounds of a grant, prefilled from the item from which it is given."""

    lasts = forms.ChoiceField(label=gettext_lazy("Until when"), widget=forms.RadioSelect)
    until = forms.DateTimeField(
        label=gettext_lazy("Another time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
    )
    each = forms.DecimalField(
        label=gettext_lazy("At most each time"),
        min_value=0,
        max_digits=18,
        decimal_places=4,
        localize=True,
        widget=forms.TextInput(attrs=_NUMBER),
    )
    in_all = forms.DecimalField(
        label=gettext_lazy("At most in all"),
        min_value=0,
        max_digits=18,
        decimal_places=4,
        localize=True,
        widget=forms.TextInput(attrs=_NUMBER),
    )
    times = forms.IntegerField(
        label=gettext_lazy("How many times"), min_value=1, max_value=100_000, initial=10
    )
    per = forms.ChoiceField(
        label=gettext_lazy("This counts"),
        choices=[
            (Per.TOTAL.value, gettext_lazy("in all")),
            (Per.DAY.value, gettext_lazy("for each day")),
            (Per.MONTH.value, gettext_lazy("for each month")),
        ],
        initial=Per.TOTAL.value,
    )
    fixed = forms.MultipleChoiceField(
        label=gettext_lazy("Only with"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("What is not ticked may be anything."),
    )

    def __init__(self, *args: Any, row: Transaction, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row, self.now = row, timezone.localtime()
        fields: Any = self.fields
        fields["lasts"].choices = [*self._times()]
        fields["lasts"].initial = TODAY
        fields["fixed"].choices = [
            (name, f"{first_large(argument_label(name))}: {_in_words(value)}")
            for name, value in self.fixable.items()
        ]
        fields["fixed"].initial = [*_the_same(row, self.fixable)]
        if row.amount is None:
            del fields["each"], fields["in_all"]
        else:
            amount = _exact(row.amount, row.currency)
            fields["each"].initial, fields["in_all"].initial = amount, amount * 10 or Decimal(10)
            for name in ("each", "in_all"):
                fields[name].label = f"{fields[name].label} ({row.currency})"

    def _times(self) -> Iterator[tuple[str, str]]:
        yield "3600", _("for an hour")
        if self.now < self._at_five:
            yield AT_FIVE, _("until 17:00 today")
        yield TODAY, _("until the end of today")
        yield "604800", _("for a week")
        yield "2592000", _("for 30 days")
        yield AT, _("until another time:")

    @property
    def _at_five(self) -> datetime:
        return self.now.replace(hour=17, minute=0, second=0, microsecond=0)

    @cached_property
    def fixable(self) -> dict[str, Value]:
        """The arguments that a condition can name: those of one value, as the item shows them."""
        shown = details_of(self.row, labels.compared(self.row))
        single = [each for each in shown if each.is_single and _can_be_fixed(self.row, each.name)]
        return {each.name: each.values[0] for each in single[:MOST_FIXED]}

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if given.get("lasts") == AT and not self.errors:
            at, latest = given["until"], self.now + grants.LONGEST
            if at is None or not self.now < at <= latest:
                self.add_error("until", _("Choose a time within the next 30 days."))
        if not self.errors and "each" in given and given["in_all"] < given["each"]:
            self.add_error("in_all", _("In all it is at least as much as each time."))
        if not self.errors:
            try:
                grants.rule_of(self.wanted())
            except LedgerError as refusal:
                self.add_error(None, refusal_and_hint(refusal))
        return given

    def wanted(self) -> grants.Wanted:
        row, given = self.row, self.cleaned_data
        levels = [level.value for level in RiskLevel]
        when: dict[str, Any] = {"risk": {"is": levels[: levels.index(row.risk_level) + 1]}}
        mosts = [str(given["times"])]
        if row.amount is not None:
            when["amount"] = {"at_most": f"{given['each']:f} {row.currency}"}
            mosts.append(f"{given['in_all']:f} {row.currency}")
        for name in given["fixed"]:
            when[f"arguments.{name}"] = {"is": [text_of(row.arguments[name])]}
        return grants.Wanted(
            tenant=row.tenant,
            agent=row.proposed_by,
            tool=row.tool,
            when=when,
            budgets=[{"most": most, "per": given["per"]} for most in mosts],
            lasts=self._lasts(),
            warnings=row.warnings,
            names=grants.names_given(row.arguments),
            tool_version=row.tool_version or "",
            transaction_id=row.pk,
        )

    def _lasts(self) -> timedelta:
        match self.cleaned_data["lasts"]:
            case "five":
                return time_between(self.now, self._at_five)
            case "today":
                end_of_today = self.now.replace(hour=23, minute=59, second=0, microsecond=0)
                return max(time_between(self.now, end_of_today), timedelta(minutes=1))
            case "at":
                return time_between(self.now, self.cleaned_data["until"])
            case lasts:
                return span_of(lasts) or timedelta()

    def in_words(self) -> str:
        wanted, row = self.wanted(), self.row
        free = grants.names_given(row.arguments) - {*self.cleaned_data["fixed"]}
        any_of = [name for name in row.arguments if name in free and not _is_amount(row, name)]
        ends_at = timezone.localtime(self.now.astimezone(UTC) + wanted.lasts)
        return grant_in_words(wanted, row.proposed_by_name, ends_at, any_of)


def _in_words(value: Value) -> str:
    return value.money or read(value.field.validated)


def _can_be_fixed(row: Transaction, name: str) -> bool:
    value = row.arguments.get(name)
    has_text = value is not None and not isinstance(value, dict | list)
    is_short = has_text and 0 < len(text_of(value)) <= LONGEST_FIXED
    return is_short and not _is_amount(row, name)


def _exact(amount: Decimal, currency: str) -> Decimal:
    """With the decimals of its currency, unless it has more."""
    rounded = round(amount, get_currency_precision(currency))
    return rounded if rounded == amount else amount.normalize()


def _the_same(row: Transaction, names: Iterable[str]) -> Iterator[str]:
    """The arguments that this agent always gave this value; of a first proposal, all but those
    that make it another one."""
    others = Transaction.objects.filter(
        tenant=row.tenant, proposed_by=row.proposed_by, tool=row.tool, content_erased_at=None
    ).exclude(pk=row.pk)
    given = [*others.order_by("-pk").values_list("arguments", flat=True)[:COMPARED]]
    tool = tool_of(row)
    own = set(contracts.key_fields(tool.contract.operation_key) if tool else ())
    for name in names:
        if name not in own if not given else all(_is_like(each, row, name) for each in given):
            yield name


def _is_like(arguments: dict[str, Any], row: Transaction, name: str) -> bool:
    return text_of(arguments.get(name)) == text_of(row.arguments[name])


def _is_amount(row: Transaction, name: str) -> bool:
    """True for the argument that is called the amount, or its currency, and is it: they have bounds
    of their own."""
    if row.amount is None or name not in {"currency", *AMOUNTS}:
        return False
    value = row.arguments[name]
    try:
        return value == row.currency if name == "currency" else Decimal(str(value)) == row.amount
    except InvalidOperation:
        return False


@login_required
@require_http_methods(["GET", "POST"])
def allow_page(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    """The form; what it would sign, as it changes; and in the end the signature in advance."""
    row = with_history(request, transaction_id)
    viewer = viewer_of(request)
    may = may_allow(row, viewer.principal, roles_of_request(request), timezone.now())
    if Role.APPROVER not in roles_of_request(request).get(row.tenant, frozenset()):
        raise PermissionDenied(may.why_not)
    if not may and (request.method == "GET" or "look" in request.POST):
        messages.error(request, may.why_not)
        return redirect("desk:transaction", transaction_id)
    form = AllowForm(request.POST or None, row=row)
    if "look" in request.POST:
        page = "desk/_allowed.html" if "live" in request.POST else "desk/allow.html"
        return render(request, page, _context(request, row, form))
    if "sign" in request.POST:
        person, shown = person_of(request), request.POST.get("shown", "")
        return options_to_sign(form, lambda: sign_to_allow(person, row, form.wanted(), shown=shown))
    if request.method == "GET" or not form.is_valid():
        status = 422 if form.errors else 200
        return render(request, "desk/allow.html", _context(request, row, form), status=status)
    try:
        grant = _allow(request, row, form)
    except LedgerError as refusal:
        row = with_history(request, transaction_id)
        problem = who_was_faster(refusal, timezone.now()) or refusal_and_hint(refusal)
        context = _context(request, row, form) | {"problem": problem}
        return render(request, "desk/allow.html", context, status=refusal.status)
    sentence = _("Signed in advance: {what}.").format(what=form.in_words())
    see = format_html('<a href="{}">{}</a>', standing_address(grant.pk), _("See it, or end it"))
    messages.success(request, format_html("{} {}", sentence, see))
    return redirect("desk:transaction", transaction_id)


def _allow(request: HttpRequest, row: Transaction, form: AllowForm) -> Grant:
    """Raises ``LedgerError``."""
    given = ApproveForm(request.POST)
    given.is_valid()
    names = ("digest", "shown", "typed", "credential", "nonce")
    shown = {name: given.cleaned_data.get(name, "") for name in names}
    in_advance = (request.POST.get("grant_credential", ""), request.POST.get("grant_nonce", ""))
    person = person_of(request)
    return allow(person, row.pk, form.wanted(), in_advance=in_advance, **shown)


def _context(request: HttpRequest, row: Transaction, form: AllowForm) -> dict[str, Any]:
    if not form.is_bound:
        form = AllowForm({each.html_name: each.initial for each in form}, row=row)
    context = item_context(request, row) | {"form": form, "is_whole": True}
    context["asks_to_sign"] = policies.asks_to_sign(row)
    context["proof"] = full_display.proof_of(row, person_of(request))
    if form.is_valid():
        context |= _foreseen(row, form)
        context["asked_too"] = not_filled_by(row, viewer_of(request).principal)
    return context


def _foreseen(row: Transaction, form: AllowForm) -> dict[str, Any]:
    past = grants.past_of(form.wanted(), LOOKED_BACK)
    covered = Transaction.objects.for_tenants(frozenset({row.tenant})).filter(pk__in=past.covered)
    return {
        "what": form.in_words(),
        "past": past,
        "sums": ", ".join(amount_written(amount, of) for of, amount in past.sums.items()),
        "listed": covered.order_by("-pk")[:MOST_LISTED],
        "rejected": covered.filter(ending=Ending.REJECTED).count(),
    }
