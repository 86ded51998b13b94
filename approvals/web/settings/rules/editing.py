"""Editing the draft: one rule as a sentence, or all of them as text."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from approvals.presentation import in_words, refusal_and_hint
from approvals.web.settings.operators import origin_of
from approvals.web.settings.rules.forms import RuleForm, TextForm, fields_of
from approvals.web.settings.rules.rulebook import Rulebook, kept
from ledger.errors import LedgerError
from ledger.sign_off import rules
from ledger.sign_off.rules import RulesRefused, sentences


@login_required
@require_http_methods(["GET", "POST"])
def new_rule(request: HttpRequest, tenant: str) -> HttpResponse:
    book = kept(request, tenant)
    form = RuleForm(request.POST or None, book=book)
    if request.method == "POST" and form.is_valid() and _append(request, form, book):
        return redirect("desk:rules-of", tenant)
    return _rule_page(request, book, form)


@login_required
@require_http_methods(["GET", "POST"])
def rule(request: HttpRequest, tenant: str, place: int) -> HttpResponse:
    """The rule at this place of the draft, or of the active set that a draft begins from."""
    book = kept(request, tenant)
    written = _rule_at(book, place)
    fields = fields_of(written)
    if fields is None:
        messages.info(request, _("The form cannot show all of this rule: edit it as text."))
        return redirect("desk:rules-text", tenant)
    form = RuleForm(request.POST or None, book=book, initial=fields)
    if request.method == "POST" and form.is_valid():
        others = book.written
        others[place - 1] = form.written
        if _save(request, form, book, others):
            return redirect("desk:rules-of", tenant)
    return _rule_page(request, book, form, place)


@login_required
@require_POST
def remove(request: HttpRequest, tenant: str, place: int) -> HttpResponse:
    """Take a rule out of the draft; that has no effect before the draft is activated."""
    book = kept(request, tenant)
    _rule_at(book, place)
    others = book.written
    del others[place - 1]
    try:
        book.check_seen(request.POST.get("seen", ""))
        book.save(others, by=origin_of(request)["by"])
    except LedgerError as refusal:
        messages.error(request, refusal_and_hint(refusal))
    else:
        messages.success(request, _("Removed from the draft. Nothing is in force yet."))
    return redirect("desk:rules-of", tenant)


@login_required
@require_http_methods(["GET", "POST"])
def as_text(request: HttpRequest, tenant: str) -> HttpResponse:
    """All rules as YAML, saved as the draft. Cases in it are run, and not kept."""
    book = kept(request, tenant)
    form = TextForm(request.POST or None, book=book, initial={"text": rules.as_yaml(book.written)})
    if request.method == "POST" and form.is_valid() and _save(request, form, book, form.written):
        return redirect("desk:rules-of", tenant)
    status = 422 if form.errors else 200
    return render(request, "settings/rules_text.html", {"book": book, "form": form}, status=status)


def _rule_at(book: Rulebook, place: int) -> Any:
    if not 1 <= place <= len(book.written):
        raise Http404
    return book.written[place - 1]


def _save(
    request: HttpRequest, form: RuleForm | TextForm, book: Rulebook, written: list[Any]
) -> bool:
    """False if it was refused; the form says why."""
    try:
        book.check_seen(request.POST.get("seen", ""))
        book.save(written, by=origin_of(request)["by"])
    except LedgerError as refusal:
        form.add_error(None, refusal_and_hint(refusal))
        return False
    messages.success(request, _("Saved in the draft. Nothing is in force yet."))
    return True


def _append(request: HttpRequest, form: RuleForm, book: Rulebook) -> bool:
    return _save(request, form, book, [*book.written, form.written])


def _rule_page(
    request: HttpRequest, book: Rulebook, form: RuleForm, place: int = 0
) -> HttpResponse:
    context = {
        "book": book,
        "form": form,
        "place": place,
        "sentence": _sentence_at(book, place) if place else "",
    }
    status = 422 if form.errors else 200
    return render(request, "settings/rule.html", context, status=status)


def _sentence_at(book: Rulebook, place: int) -> str:
    try:
        [read] = rules.read(0, [book.written[place - 1]]).rules
    except RulesRefused:
        return ""
    return in_words(sentences.sentence_of(read))
