"""Views that a person saved: filters of the inbox, the history or a list of the ledger, named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_POST

from approvals.models import SavedView, ViewPlace
from approvals.web.account import ledger_filters
from approvals.web.forms import FilterForm, HistoryForm

MOST_VIEWS = 20  # of one person
LONGEST_QUERY = 2000  # characters
FORMS = {ViewPlace.INBOX: FilterForm, ViewPlace.HISTORY: HistoryForm}
ADDRESSES = {ViewPlace.INBOX: "desk:inbox", ViewPlace.HISTORY: "desk:history"}
# A page of the list and what was decided since a moment are passing.
NOT_SAVED = {"before", "decided", "decided_since"}


@dataclass(frozen=True, slots=True)
class View:
    """A saved view as a page shows it."""

    pk: int
    name: str
    address: str
    is_open: bool


class ViewForm(forms.Form):
    place = forms.ChoiceField(choices=ViewPlace.choices)
    name = forms.CharField(
        max_length=60, error_messages={"required": gettext_lazy("Give the view a name.")}
    )
    query = forms.CharField(required=False, max_length=LONGEST_QUERY)


def clean_query(place: ViewPlace, query: Mapping[str, Any]) -> str:
    """The filters of a query that its page knows, in one order; without what it does not accept."""
    if place == ViewPlace.LEDGER:
        return ledger_filters.clean(query)
    form = FORMS[place](query)
    form.is_valid()
    values = {
        name: value
        for name in form.fields
        if name not in NOT_SAVED and (value := form.cleaned_data.get(name))
    }
    clean = QueryDict(mutable=True)
    for name, value in values.items():
        clean[name] = value.isoformat() if isinstance(value, date) else str(value)
    return clean.urlencode()


def views_context(request: HttpRequest, place: ViewPlace) -> dict[str, Any]:
    """The context of ``desk/_views.html``: the views that the person saved of this page, by name.

    In the inbox the filters change without loading the page, so saving is always offered.
    """
    present = clean_query(place, request.GET)
    return {
        "views": list(_shown(request, place, present)),
        "place": place,
        "can_save": place == ViewPlace.INBOX or bool(present),
    }


def ledger_views_context(request: HttpRequest, options: Any) -> dict[str, Any]:
    """The same for the list of a model in the ledger admin."""
    name = ledger_filters.name_of(options)
    present = ledger_filters.clean({**request.GET.dict(), ledger_filters.LIST: name})
    of_list = ledger_filters.address_of(f"{ledger_filters.LIST}={name}")
    views = _shown(request, ViewPlace.LEDGER, present)
    return {
        "views": [view for view in views if view.address.partition("?")[0] == of_list],
        "place": ViewPlace.LEDGER,
        "can_save": bool(present),
        "query": present,
    }


def _shown(request: HttpRequest, place: ViewPlace, present: str) -> Iterator[View]:
    rows = SavedView.objects.filter(user=cast(User, request.user), place=place).order_by("name")
    for row in rows[:MOST_VIEWS]:
        query = clean_query(place, QueryDict(row.query))
        yield View(row.pk, row.name, address_of(place, query), is_open=query == present)


def address_of(place: ViewPlace, query: str) -> str:
    if place == ViewPlace.LEDGER:
        return ledger_filters.address_of(query)
    page = reverse(ADDRESSES[place])
    return f"{page}?{query}" if query else page


@login_required
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Keep the filters under the name; those that had it before are replaced."""
    form = ViewForm(request.POST)
    form.is_valid()
    place = ViewPlace(form.cleaned_data.get("place") or ViewPlace.INBOX)
    query = clean_query(place, QueryDict(form.cleaned_data.get("query", "")))
    if error := _keep(cast(User, request.user), form, place, query):
        messages.error(request, error)
    else:
        messages.success(request, _("The view is saved."))
    return redirect(address_of(place, query))


def _keep(person: User, form: ViewForm, place: ViewPlace, query: str) -> str:
    """Returns why it was not kept; empty if it was."""
    if not form.is_valid():
        return " ".join(str(error) for errors in form.errors.values() for error in errors)
    if not query or len(query) > LONGEST_QUERY:
        return _("Search or filter first: a view keeps that.")
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)  # of two at the same time, one
        key = {"user": person, "place": place, "name": form.cleaned_data["name"]}
        others = SavedView.objects.filter(user=person)
        if others.count() >= MOST_VIEWS and not others.filter(**key).exists():
            return _("You have %(number)d views. Delete one first.") % {"number": MOST_VIEWS}
        SavedView.objects.update_or_create(**key, defaults={"query": query})
    return ""


@login_required
@require_POST
def remove(request: HttpRequest, view_id: int) -> HttpResponse:
    """Delete a view of one's own; somebody else's is not there."""
    row = get_object_or_404(SavedView, user=cast(User, request.user), pk=view_id)
    row.delete()
    messages.success(request, _("The view is deleted."))
    place = ViewPlace(row.place)
    return redirect(address_of(place, row.query).partition("?")[0])
