"""Parts of each page of the ledger admin: its reader's tenants, bounds, searches by index."""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.core.paginator import Paginator
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from ledger import contracts, principals
from ledger.admin.names import (
    COLUMNS as COLUMNS,
    WordedChoices as WordedChoices,
    name_rows as name_rows,
    worded as worded,
)
from ledger.admin.paging import COUNTED as COUNTED, BoundedPaginator as BoundedPaginator
from ledger.foundation.characters import without_nul
from ledger.principals import Principal, Surface
from ledger.tools import tools_of

VIA = Surface.ADMIN
MOST_FOUND = 1_000  # rows that one search finds at most


def tenants_of(request: HttpRequest) -> frozenset[str]:
    """The tenants of the signed-in person; none where the middleware did not set them."""
    return frozenset(getattr(request, "tenants", ()))


class StrictLookups(ModelAdmin):
    """The address bar filters by what the list offers, and by nothing else.

    Django lets it ask for any column (``?webhook_secret__startswith=``), which reads out secrets.
    """

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """With a heading that says what it lists."""
        title = {"title": capfirst(self.opts.verbose_name_plural)}
        return super().changelist_view(request, {**title, **(extra_context or {})})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """With a heading that says what it is: the row's own name stands below."""
        title = {"title": capfirst(self.opts.verbose_name)}
        return super().change_view(request, object_id, form_url, {**title, **(extra_context or {})})

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return any(lookup in _lookups_of(self.model, offered) for offered in self.list_filter)


def _lookups_of(model: type[models.Model], offered: Any) -> set[str]:
    """Names of the parameters by which a filter asks in the address."""
    name = offered[0] if isinstance(offered, tuple) else offered
    if not isinstance(name, str):
        return {name.parameter_name}
    field = model._meta.get_field(name)
    related = getattr(field, "related_model", None)
    path = f"{name}__{field.target_field.name}" if related else name  # type: ignore[union-attr]
    return {path, f"{path}__exact", f"{path}__in", f"{name}__isnull"}


class TenantAdmin(StrictLookups):
    """Lists rows of the reader's tenants; no rows if those are not known."""

    tenant_path = "tenant"
    counted_by: ClassVar[tuple[str, ...]] = ("-pk",)  # the order of an index that lists the rows
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 200
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    # The first three columns of a list are those that a phone shows.
    sortable_by: ClassVar[tuple[str, ...]] = ()  # any other order would sort a million rows

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return self.of_tenants(super().get_queryset(request), tenants_of(request))

    def get_paginator(self, *args: Any, **kwargs: Any) -> Paginator:
        paginator = super().get_paginator(*args, **kwargs)
        # The history of one row is a list of another model.
        is_ours = getattr(paginator.object_list, "model", None) is self.model
        if is_ours and isinstance(paginator, BoundedPaginator):
            paginator.counted_by = self.counted_by
        return paginator

    def of_tenants(self, rows: QuerySet[Any], tenants: frozenset[str]) -> QuerySet[Any]:
        return rows.filter(**{f"{self.tenant_path}__in": tenants})


class ReadOnly:
    """Nothing is added, changed or deleted by hand."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class SearchedByIndex(TenantAdmin):
    """Searches for one whole value; ``LIKE '%…%'`` would read a million rows."""

    search_fields = ("pk",)  # only so that there is a search box

    def rows_of(self, request: HttpRequest, value: str) -> Iterable[QuerySet[Any]]:
        """One queryset per index that can find the value; their OR would use none."""
        raise NotImplementedError

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        value = without_nul(search_term).strip()
        if not value:
            return queryset, False
        keys: set[Any] = set()
        for rows in self.rows_of(request, value):
            keys.update(rows.values_list("pk", flat=True)[:MOST_FOUND])
        return queryset.filter(pk__in=keys), False


class ToolFilter(SimpleListFilter):
    """The tools that are declared; a DISTINCT over the table would read all of it."""

    title = gettext_lazy("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(tools_of(tenants_of(request)))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(tool=self.value()) if self.value() else queryset


class RetentionFilter(SimpleListFilter):
    """Filter by what operators hold back, and what was erased."""

    title = gettext_lazy("retention")
    parameter_name = "retention"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("held", gettext("under a legal hold")),
            ("erased", gettext("content erased")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        column = {"held": "legal_hold_at", "erased": "content_erased_at"}.get(self.value() or "")
        return queryset.filter(**{f"{column}__isnull": False}) if column else queryset


class ReadonlyToolFilter(ToolFilter):
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(contracts.readonly_tools)]


def pretty(value: Any) -> SafeString | str:
    """JSON as people read it. What is kept as text is parsed first, if it is JSON."""
    if value in (None, ""):
        return ""
    if isinstance(value, str):
        try:
            return pretty(json.loads(value))
        except ValueError:
            return f"{value}"
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return format_html('<pre class="json">{}</pre>', text)


def as_json(column: str, label: Any) -> Any:
    @admin.display(description=label)
    def shown(self: Any, row: models.Model) -> SafeString | str:
        return pretty(attrgetter(column)(row))

    return shown


def to_the_desk(address: str) -> SafeString:
    """The column from a row to its page on the desk."""
    return format_html('<a href="{}">{}</a>', address, gettext("On the desk"))


def link_to(transaction_id: UUID | None) -> SafeString | str:
    if transaction_id is None:
        return ""
    address = reverse("admin:ledger_transaction_change", args=[transaction_id])
    return format_html('<a href="{}">{}</a>', address, transaction_id.hex[-8:])


def principal_of(request: HttpRequest) -> Principal:
    person: Any = request.user
    return principals.user(person.pk, person.get_full_name() or person.get_username())
