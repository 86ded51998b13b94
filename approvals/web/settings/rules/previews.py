"""Preview: what the draft would have made of the last days, read on page by page.

The server keeps nothing of it: each part of the page asks for the next one, and carries the counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from approvals.presentation import in_words, refusal_and_hint
from approvals.web.settings.rules.rulebook import Rulebook, kept, readable
from ledger.errors import LedgerError
from ledger.models import RuleSet, RuleSetState, Transaction, TransactionQuerySet
from ledger.sign_off import rules
from ledger.sign_off.rules import RulesRefused, preview, sentences
from ledger.sign_off.rules.preview import Change
from ledger.tools import contracts_of

DAYS = (7, 30, 90)
MOST_LISTED = 100
STARTED = gettext_lazy(
    "The preview runs. Items say what the draft would ask, and nothing depends on it."
)
LABELS: dict[Change, str | Promise] = {
    Change.PASSES: gettext_lazy("would pass"),
    Change.LESS: gettext_lazy("would ask fewer"),
    Change.SAME: gettext_lazy("as it was"),
    Change.MORE: gettext_lazy("would ask more, or others"),
    Change.DENIED: gettext_lazy("would be denied"),
}


@dataclass(frozen=True, slots=True)
class Window:
    """The proposals that are judged: of so many days, or since the preview began (0)."""

    draft: RuleSet
    days: int

    @classmethod
    def since_preview(cls, draft: RuleSet) -> Window:
        return cls(draft, 0)

    @property
    def proposals(self) -> TransactionQuerySet:
        if self.days:
            return preview.proposals(self.draft.tenant, timedelta(days=self.days))
        began = self.draft.previewed_at or timezone.now()
        lasts = timezone.now() - began + timedelta(days=1)
        return preview.proposals(self.draft.tenant, lasts).filter(created_at__gte=began)

    @property
    def query(self) -> str:
        """Asks for the first part."""
        return urlencode({"days": self.days, "seen": self.draft.sha256})


class PartForm(forms.Form):
    """A part's address: it carries the counts of the ones before it."""

    days = forms.TypedChoiceField(choices=[(days, "") for days in (0, *DAYS)], coerce=int)
    seen = forms.RegexField(r"^[0-9a-f]{64}$")
    after = forms.UUIDField(required=False)
    total = forms.IntegerField(required=False, min_value=0)
    listed = forms.IntegerField(required=False, min_value=0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for change in Change:
            self.fields[change.value] = forms.IntegerField(required=False, min_value=0)

    def counts(self) -> Counter[Change]:
        return Counter({change: self.cleaned_data[change.value] or 0 for change in Change})


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """A transaction for which something else would be asked."""

    id: UUID
    summary: str
    label: str
    tone: str
    before: str
    after: str


TONES = {Change.PASSES: "soon", Change.LESS: "soon", Change.MORE: "", Change.DENIED: "bad"}


@login_required
@require_safe
def preview_page(request: HttpRequest, tenant: str) -> HttpResponse:
    book = readable(request, tenant)
    if book.draft is None:
        messages.info(request, _("There is no draft to preview."))
        return redirect("desk:rules-of", tenant)
    chosen = request.GET.get("days", "")
    days = int(chosen) if chosen in map(str, DAYS) else DAYS[1]
    context = {
        "book": book,
        "days": days,
        "choices": DAYS,
        "window": Window(book.draft, days),
        "is_previewed": book.draft.state == RuleSetState.PREVIEW,
    }
    return render(request, "settings/rules_preview.html", context)


@login_required
@require_safe
def next_part(request: HttpRequest, tenant: str) -> HttpResponse:
    """The counts so far, and what asks for the next part until all of it is read."""
    book, form = readable(request, tenant), PartForm(request.GET)
    if not form.is_valid():
        raise Http404
    context = {"book": book, **_part(book, form)}
    return render(request, "settings/_rules_preview.html", context)


def _part(book: Rulebook, form: PartForm) -> dict[str, Any]:
    given, draft = form.cleaned_data, book.draft
    if draft is None or draft.sha256 != given["seen"]:
        return {"is_overtaken": True}
    try:
        compiled = rules.read(draft.number, draft.rules)
    except RulesRefused:
        return {"is_overtaken": True}
    rows = Window(draft, given["days"]).proposals
    total = given["total"] if given["after"] else rows.count()
    contract_of = contracts_of(book.tenant.pk)
    result = preview.preview(rows, compiled, contract_of, after=given["after"])
    counts = form.counts() + result.counts
    listed = given["listed"] or 0
    lines = _lines(book, result.changed[: max(0, MOST_LISTED - listed)])
    judged = counts.total()
    carried = {
        "days": given["days"],
        "seen": given["seen"],
        "after": result.after,
        "total": total,
        "listed": listed + len(lines),
        **{change.value: counts[change] for change in Change},
    }
    changed = judged - counts[Change.SAME]
    return {
        "lists": given["days"] > 0,
        "counts": [(change.value, label, counts[change]) for change, label in LABELS.items()],
        "judged": judged,
        "total": max(judged, total or 0),
        "lines": lines,
        "more": changed - carried["listed"] if result.after is None else 0,
        "is_unchanged": result.after is None and not changed,
        "next": urlencode(carried) if result.after else "",
    }


def _lines(book: Rulebook, changed: list[preview.Changed]) -> list[ChangedLine]:
    rows = Transaction.objects.for_tenants(frozenset({book.tenant.pk}))
    named = rows.filter(pk__in=[each.id for each in changed])
    summaries = dict(named.values_list("pk", "action_summary"))
    return [
        ChangedLine(
            each.id,
            summaries.get(each.id, ""),
            str(LABELS[each.change]),
            TONES[each.change],
            in_words(sentences.asked_in_words(each.before)),
            in_words(sentences.asked_in_words(each.after)),
        )
        for each in changed
    ]


@login_required
@require_POST
def start(request: HttpRequest, tenant: str) -> HttpResponse:
    """Have the draft judged beside the rules in force, without effect."""
    book = kept(request, tenant)
    try:
        rules.start_preview(book.tenant.pk, seen=request.POST.get("seen", ""))
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    else:
        messages.success(request, STARTED)
    return redirect("desk:rules-of", tenant)
